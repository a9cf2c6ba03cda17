"""A planted API key: phases 06 and 07 for real, then nothing that was written holds it."""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests
from homes import latest, make_home, run_keyelab

from keyelab.facts import ServeFacts, read_facts
from keyelab.files import located
from keyelab.serving.state import all_states, is_running

pytestmark = pytest.mark.e2e
KEY = secrets.token_hex(24)


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The records of a run of the phases before 06."""
    home = make_home(tmp_path_factory.mktemp("key"))
    done = run_keyelab(home, "run", "--target", "cpu-demo", "--to", "build")
    assert done.returncode == 0, done.stdout
    return home / "records"


@pytest.fixture
def home(tmp_path: Path, records: Path) -> Path:
    """A checkout with those records."""
    (tmp_path / "home").mkdir()
    shutil.copytree(records, tmp_path / "home" / "records")
    return make_home(tmp_path / "home")


@pytest.fixture(params=["file", "variable"])
def keyed(
    request: pytest.FixtureRequest, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[Path, str]]:
    """A home whose server is open to others, asks for KEY and is left running; what was printed."""
    words = ["--set", "serve.host=0.0.0.0", "--set", "serve.keep_server=true"]
    monkeypatch.delenv("LLAMA_API_KEY", raising=False)
    if request.param == "file":
        (tmp_path / "key").write_text(KEY + "\n")
        (tmp_path / "key").chmod(0o600)
        words += ["--set", f"serve.api_key_file={tmp_path / 'key'}"]
    else:
        monkeypatch.setenv("LLAMA_API_KEY", KEY)
    try:
        done = run_keyelab(
            home, "run", "--target", "cpu-demo", "--from", "serve", "--to", "video_test", *words
        )
        assert done.returncode == 0, done.stdout
        yield home, done.stdout
    finally:
        for left in all_states(home / "work"):
            if left.run_dir == f"records/cpu-demo/{latest(home).name}":
                run_keyelab(home, "stop", "--port", str(left.port))


def test_key_is_in_nothing_that_a_run_leaves(keyed: tuple[Path, str]) -> None:
    home, printed = keyed
    run = latest(home)
    server = read_facts(run, "serve", ServeFacts)
    written = [path for path in run.rglob("*") if path.is_file()]
    written += [*(home / "work" / "servers").iterdir()]
    assert len(written) > 20
    assert [str(path) for path in written if KEY.encode() in path.read_bytes()] == []
    assert KEY not in printed
    assert KEY not in run_keyelab(home, "status").stdout
    listed = [path for path in Path("/proc").glob("[0-9]*/cmdline") if KEY in text(path)]
    assert listed == []
    assert "llama-server" in text(Path(f"/proc/{server.pid}/cmdline")), "it runs and was looked at"


def test_server_asks_for_the_key_and_the_notebook_says_what_is_open(
    keyed: tuple[Path, str],
) -> None:
    home, _ = keyed
    server = read_facts(latest(home), "serve", ServeFacts)
    with requests.Session() as session:
        session.trust_env = False
        assert session.get(f"{server.url}/props", timeout=5).status_code == 401
        told = {"Authorization": f"Bearer {KEY}"}
        assert session.get(f"{server.url}/props", headers=told, timeout=5).status_code == 200
    page = (latest(home) / "06_serve.html").read_text()
    assert "is open to everyone who reaches this machine" in page


def test_open_address_without_a_key_is_refused_before_the_start(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LLAMA_API_KEY", raising=False)
    words = ["--from", "serve", "--to", "serve", "--set", "serve.host=0.0.0.0"]
    done = run_keyelab(home, "run", "--target", "cpu-demo", *words)
    assert done.returncode != 0
    assert "expected an API key for serve.host=0.0.0.0" in done.stdout
    run = latest(home)
    assert not list((run / "logs").glob("06_serve-server-*")), "nothing was started"
    mine = [one for one in all_states(home / "work") if one.run_dir.endswith(run.name)]
    assert [one for one in mine if is_running(one)] == []


def text(path: Path) -> str:
    try:
        return located(path).read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""
