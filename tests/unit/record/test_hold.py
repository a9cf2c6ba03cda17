"""A run folder has one writer; the lock goes with the process and leaves no file."""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path
from typing import Any

import pytest
from holding import other_holder

from keyelab.errors import KeyelabError
from keyelab.record import hold


def test_a_folder_that_another_process_holds_is_refused_with_its_pid(tmp_path: Path) -> None:
    with other_holder(tmp_path) as pid:
        assert hold.is_held(tmp_path)
        assert hold.holders(tmp_path) == [pid]
        with (
            pytest.raises(hold.Held, match=rf"goes on \(pid {pid}\)") as told,
            hold.held(tmp_path, wait_s=0),
        ):
            pass
        assert told.value.exit_code == 1
        assert told.value.hint == f"wait for its end, or end it: kill {pid}"


def test_the_lock_of_a_killed_process_is_free_and_no_file_is_left(tmp_path: Path) -> None:
    with other_holder(tmp_path) as pid:
        os.kill(pid, 9)
        with hold.held(tmp_path, wait_s=20):
            assert hold.is_held(tmp_path)
    assert not hold.is_held(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_may_be_held_again_by_the_same_run(tmp_path: Path) -> None:
    with hold.held(tmp_path) as first, hold.held(tmp_path / ".") as second:
        assert first == second
        assert not os.get_inheritable(first), "only a kernel is given it"
    assert not hold.is_held(tmp_path)


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.EOPNOTSUPP, errno.ESTALE, errno.EIO])
def test_a_share_without_locks_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def refuse(*given: Any) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", refuse)
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    with pytest.raises(KeyelabError, match=os.strerror(number)) as told, hold.held(tmp_path):
        pass
    assert "a disk that is there and can lock" in told.value.hint
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208
    assert not hold.is_held(tmp_path)


def test_a_folder_that_is_gone_cannot_be_held(tmp_path: Path) -> None:
    with pytest.raises(KeyelabError, match="No such file"), hold.held(tmp_path / "gone"):
        pass


def test_a_new_run_folder_is_held_and_goes_when_nothing_was_written(checkout: Any) -> None:
    with hold.fresh("cpu-demo") as empty:
        assert hold.is_held(empty)
        assert not hold.is_held(empty.parent)
    assert not empty.exists()
    with hold.fresh("cpu-demo") as kept:
        (kept / "run.json").write_text("{}")
    assert kept.exists()
    assert not hold.is_held(kept)


def test_the_empty_folder_of_a_run_that_was_killed_at_once_goes_with_the_next(
    checkout: Any,
) -> None:
    above = checkout.root / "records" / "cpu-demo"
    dead, living, foreign = (above / f"20260101T000000Z-{n * 8}" for n in "abc")
    for folder in (dead, living, foreign):
        folder.mkdir(parents=True)
        (folder / ".run.json.x1y2z3w4").write_text("{")
    (foreign / "notes.txt").write_text("mine")
    with other_holder(living), hold.fresh("cpu-demo"):
        assert not dead.exists()
        assert living.exists()
        assert (foreign / "notes.txt").exists()


def test_records_on_a_read_only_disk_are_one_sentence(
    checkout: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*given: Any, **named: Any) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(Path, "mkdir", refuse)
    with (
        pytest.raises(KeyelabError, match="Read-only file system") as told,
        hold.fresh("cpu-demo"),
    ):
        pass
    assert "ls -ld" in told.value.hint
