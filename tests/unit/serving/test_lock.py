from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from keyelab.errors import KeyelabError
from keyelab.serving import lock


def test_lock_is_free_again_after_a_start_that_came_to_nothing() -> None:
    with pytest.raises(ValueError, match="no"), lock.held(["port-1"], {}):
        raise ValueError("no")
    assert lock.owner("port-1") is None
    with lock.held(["port-1"], {}):
        pass


def test_process_that_inherits_the_lock_holds_it_until_it_is_killed() -> None:
    sleep = [sys.executable, "-c", "import time; time.sleep(60)"]
    owner = {"port": 8082, "run": "records/x", "workdir": "/elsewhere/work"}
    with lock.held([lock.port(8082), lock.card("0000:01:00.0")], owner) as descriptors:
        child = subprocess.Popen(sleep, pass_fds=descriptors)
        owner["pid"] = child.pid
    for name, what in (("card-0000:01:00.0", "card 0000:01:00.0"), ("port-8082", "TCP port 8082")):
        with (
            pytest.raises(lock.Taken, match=f"expected {what} to be free") as error,
            lock.held([name], {}),
        ):
            pass
        assert f"pid {child.pid}, port 8082, run records/x" in error.value.message
        assert error.value.hint == "keyelab stop --workdir /elsewhere/work --port 8082"
    child.kill()  # SIGKILL
    child.wait()
    assert lock.owner("port-8082") is None


def test_a_taken_lock_gives_back_those_taken_before_it() -> None:
    with lock.held(["card-b"], {}):
        with pytest.raises(lock.Taken), lock.held(["card-a", "card-b"], {}):
            pass
        assert lock.owner("card-a") is None


def test_two_processes_at_once_get_one_lock_and_one_refusal() -> None:
    code = (
        "import sys, time\n"
        "from keyelab.serving import lock\n"
        "time.sleep(max(0, float(sys.argv[1]) - time.time()))\n"
        "try:\n"
        "    with lock.held(['port-1'], {}): print('got'); time.sleep(1.5)\n"
        "except lock.Taken: print('taken')\n"
    )
    at = str(time.time() + 1)
    both = [
        subprocess.Popen([sys.executable, "-c", code, at], stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    assert sorted(one.communicate()[0].strip() for one in both) == ["got", "taken"]


def test_folder_is_for_all_users_and_a_folder_that_cannot_be_used_is_one_sentence() -> None:
    folder = lock.folder()
    with lock.held(["port-1"], {}):
        pass
    assert folder.stat().st_mode & 0o7777 == 0o1777
    (folder / "port-2").symlink_to("/etc/passwd")
    with pytest.raises(KeyelabError, match="expected to lock port-2"), lock.held(["port-2"], {}):
        pass


@pytest.mark.skipif(os.getuid() != 0, reason="only root can make a file of another user")
def test_lock_file_of_another_user_still_locks() -> None:
    folder = lock.folder()
    with lock.held(["port-3"], {"pid": 7}):
        pass
    os.chown(folder / "port-3", 1, 1)
    with lock.held(["port-3"], {"pid": 8}):
        assert lock.owner("port-3") is not None
