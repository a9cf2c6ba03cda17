"""Downloads through a client that is a small script, and hubs whose Python API is a stand-in."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import types
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from keyelab.errors import KeyelabError
from keyelab.models import fetch, hub, plan, sums

MODEL, MMPROJ = "keye.gguf", "mmproj-keye.gguf"
REFUSED = "NewConnectionError: [Errno 111] Connection refused"


def script(folder: Path, body: str) -> tuple[str, ...]:
    """A client that runs `body` in Python, its last argument being the folder."""
    path = folder / "client.py"
    path.write_text(f"import pathlib, sys\nto = pathlib.Path(sys.argv[-1])\n{body}\n")
    return (sys.executable, str(path), str(folder / "models"))


def todo(folder: Path, body: str) -> plan.Plan:
    return plan.Plan(
        source="modelscope",
        origin="modelscope a/b",
        folder=folder / "models",
        model_name=MODEL,
        mmproj_name=MMPROJ,
        missing=(MODEL, MMPROJ),
        command=script(folder, body),
        listed={"keye.gguf": hub.Listed(4, None), "mmproj-keye.gguf": hub.Listed(4, None)},
        need_bytes=8,
        free_bytes=2**40,
    )


BRING = f"""
for name in ({MODEL!r}, {MMPROJ!r}):
    (to / name).write_bytes(b"GGUF")
    print("got", name, flush=True)
"""


def obtain(planned: plan.Plan, tmp_path: Path) -> list[str]:
    told: list[str] = []
    fetch.obtain(planned, {}, tmp_path / "log.txt", lambda _, text: told.append(text))
    return told


def test_what_the_client_brings_is_there_and_its_words_are_logged(tmp_path: Path) -> None:
    planned = todo(tmp_path, BRING)
    told = obtain(planned, tmp_path)
    assert planned.model.read_bytes() == b"GGUF"
    assert "got keye.gguf" in (tmp_path / "log.txt").read_text()
    assert told[0].endswith("of 0.0 MB")


def test_nothing_is_run_when_both_files_are_there(tmp_path: Path) -> None:
    planned = replace(todo(tmp_path, "raise SystemExit(9)"), missing=())
    assert obtain(planned, tmp_path) == ["both files are there"]


def test_the_hubs_digests_are_kept_beside_the_files(tmp_path: Path) -> None:
    digest = hashlib.sha256(b"GGUF").hexdigest()
    planned = replace(
        todo(tmp_path, BRING),
        listed={MODEL: hub.Listed(4, digest), MMPROJ: hub.Listed(None, None)},
    )
    obtain(planned, tmp_path)
    assert sums.read(planned.folder) == {MODEL: digest}


def test_a_file_that_came_whole_in_an_earlier_attempt_is_checked_too(tmp_path: Path) -> None:
    digest = hashlib.sha256(b"GGUF").hexdigest()
    both = {MODEL: hub.Listed(4, digest), MMPROJ: hub.Listed(4, digest)}
    planned = replace(todo(tmp_path, BRING), missing=(MMPROJ,), listed=both)
    obtain(planned, tmp_path)
    assert sums.read(planned.folder) == {MODEL: digest, MMPROJ: digest}


def test_no_space_stops_before_the_client_runs(tmp_path: Path) -> None:
    planned = replace(todo(tmp_path, BRING), free_bytes=10)
    with pytest.raises(KeyelabError, match=r"expected 1.1 GB free .* found 0.0 MB free"):
        obtain(planned, tmp_path)
    assert not planned.folder.exists()


def test_no_network_is_one_sentence_with_the_log_and_a_way_out(tmp_path: Path) -> None:
    body = f"print({REFUSED!r}); print('Suggestion: check'); raise SystemExit(1)"
    with pytest.raises(KeyelabError) as caught:
        obtain(todo(tmp_path, body), tmp_path)
    message = caught.value.message
    assert "expected ModelScope to be reachable for a/b, found no network" in message
    assert "(connection refused); log: " in message
    assert "source: path" in caught.value.hint
    assert list((tmp_path / "models").iterdir()) == []


def test_an_old_failure_in_the_log_is_not_this_ones_cause(tmp_path: Path) -> None:
    (tmp_path / "log.txt").write_text(REFUSED + "\n")
    with pytest.raises(KeyelabError, match=r"to deliver a/b, found: .*integrity check failed"):
        obtain(
            todo(tmp_path, "print('error: integrity check failed'); raise SystemExit(1)"), tmp_path
        )


def test_a_client_that_leaves_a_part_has_not_delivered(tmp_path: Path) -> None:
    body = BRING + f"(to / {MODEL + '.incomplete'!r}).write_bytes(b'G')"
    with pytest.raises(KeyelabError, match=r"found keye.gguf.incomplete"):
        obtain(todo(tmp_path, body), tmp_path)


def test_a_client_that_ends_well_without_the_file_has_not_delivered(tmp_path: Path) -> None:
    with pytest.raises(KeyelabError, match="after the download, found none"):
        obtain(todo(tmp_path, "print('done')"), tmp_path)


def test_another_size_than_listed_is_refused(tmp_path: Path) -> None:
    planned = replace(todo(tmp_path, BRING), listed={MODEL: hub.Listed(5, None)})
    with pytest.raises(KeyelabError, match=r"expected 5 bytes .* found 4"):
        obtain(planned, tmp_path)


@pytest.fixture
def no_clients(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Only the stand-ins that a test puts into sys.modules can be imported."""
    found = hub.importlib.util.find_spec
    monkeypatch.setattr(
        hub.importlib.util,
        "find_spec",
        lambda name: sys.modules.get(name) if name.startswith(("mod", "hugg")) else found(name),
    )
    for name in ("modelscope", "modelscope.hub", "modelscope.hub.api", "modelscope_hub"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.delitem(sys.modules, "huggingface_hub", raising=False)
    return monkeypatch


def stand_in(monkeypatch: pytest.MonkeyPatch, name: str, **content: Any) -> None:
    module = types.ModuleType(name)
    vars(module).update(content)
    monkeypatch.setitem(sys.modules, name, module)


def hugging_face(monkeypatch: pytest.MonkeyPatch, answer: Any) -> list[tuple[Any, ...]]:
    asked: list[tuple[Any, ...]] = []

    class HfApi:
        def model_info(self, repo: str, revision: str | None, files_metadata: bool) -> Any:
            asked.append((repo, revision, files_metadata))
            if isinstance(answer, Exception):
                raise answer
            return types.SimpleNamespace(siblings=answer)

    stand_in(monkeypatch, "huggingface_hub", HfApi=HfApi)
    return asked


def test_without_the_python_package_the_listing_is_unknown(
    no_clients: pytest.MonkeyPatch,
) -> None:
    assert hub.listing("modelscope", "a/b", "", [MODEL]) == {}


def test_hugging_face_lists_sizes_and_digests(no_clients: pytest.MonkeyPatch) -> None:
    entries = [
        types.SimpleNamespace(rfilename=MODEL, size=9, lfs={"sha256": "1" * 64, "size": 9}),
        types.SimpleNamespace(rfilename="README.md", size=3, lfs=None),
    ]
    asked = hugging_face(no_clients, entries)
    assert hub.listing("huggingface", "a/b", "", [MODEL]) == {MODEL: hub.Listed(9, "1" * 64)}
    assert asked == [("a/b", None, True)]


def test_the_new_modelscope_package_is_asked_for_digests(no_clients: pytest.MonkeyPatch) -> None:
    class HubApi:
        def list_repo_files(self, repo: str, kind: str, *, revision: str) -> list[Any]:
            assert (repo, kind, revision) == ("a/b", "model", "v1")
            return [types.SimpleNamespace(path=MODEL, size=9, sha256="2" * 64)]

    stand_in(no_clients, "modelscope")
    stand_in(no_clients, "modelscope_hub", HubApi=HubApi)
    assert hub.listing("modelscope", "a/b", "v1", [MODEL])[MODEL].sha256 == "2" * 64


def test_the_older_modelscope_package_lists_rows(no_clients: pytest.MonkeyPatch) -> None:
    class HubApi:
        def get_model_files(self, repo: str, recursive: bool) -> list[dict[str, Any]]:
            print("noise that does not reach the notebook")
            return [{"Path": MODEL, "Size": 9, "Sha256": "3" * 64, "Type": "blob"}]

    stand_in(no_clients, "modelscope")
    stand_in(no_clients, "modelscope.hub")
    stand_in(no_clients, "modelscope.hub.api", HubApi=HubApi)
    assert hub.listing("modelscope", "a/b", "", [MODEL]) == {MODEL: hub.Listed(9, "3" * 64)}


def test_files_that_are_here_need_not_be_listed(no_clients: pytest.MonkeyPatch) -> None:
    hugging_face(no_clients, [types.SimpleNamespace(rfilename=MODEL, size=9, lfs=None)])
    found = hub.listing("huggingface", "a/b", "", [MODEL], [MODEL, "my-own.gguf"])
    assert found == {MODEL: hub.Listed(9, None)}


def test_a_file_the_repository_lacks_is_named_with_a_close_one(
    no_clients: pytest.MonkeyPatch,
) -> None:
    hugging_face(no_clients, [types.SimpleNamespace(rfilename=MODEL, size=9, lfs=None)])
    with pytest.raises(KeyelabError, match=r"did you mean 'keye.gguf'") as caught:
        hub.listing("huggingface", "a/b", "", ["keye2.gguf"])
    assert "keye.gguf" in caught.value.hint


@pytest.mark.parametrize(
    ("error", "found"),
    [
        (
            ConnectionError("[Errno -2] Name or service not known"),
            "no network to it (its name does not resolve)",
        ),
        (TimeoutError("The read operation timed out"), "no network to it (no answer in time)"),
        (ValueError("401 Client Error. Repository Not Found"), "401 Client Error"),
    ],
)
def test_a_hub_that_does_not_answer_is_one_sentence(
    no_clients: pytest.MonkeyPatch, error: Exception, found: str
) -> None:
    hugging_face(no_clients, error)
    with pytest.raises(KeyelabError) as caught:
        hub.listing("huggingface", "a/b", "", [MODEL])
    assert found in caught.value.message
    assert caught.value.hint


# what the clients printed on a machine without a network: modelscope 1.40.2, huggingface_hub 2.4.0
MODELSCOPE_SAYS = (
    "error: [E1020] Connection failed: _DownloadHTTPSConnectionPool(host='modelscope.cn', "
    "port=443): Max retries exceeded with url: /api/v1/models/a/b/repo/files?Revision=master "
    "(Caused by NameResolutionError(\"Failed to resolve 'modelscope.cn' ([Errno -2] Name or "
    'service not known)"))\nSuggestion: Unable to connect to the server. Please check your network.'
)
HF_SAYS = "\x1b[1m\x1b[31mError: Local entry not found. [Errno -2] Name or service not known\x1b[0m"


@pytest.mark.parametrize("said", [MODELSCOPE_SAYS, HF_SAYS])
def test_the_real_clients_words_without_a_network_are_understood(said: str) -> None:
    error = hub.unreachable("modelscope", "a/b", said)
    assert error.message.endswith("found no network to it (its name does not resolve)")


def test_phase_modules_import_without_the_optional_packages() -> None:
    code = "import sys; sys.modules.update(modelscope=None, huggingface_hub=None, gguf=None); "
    code += "from keyelab.models import digest, fetch, header, pairing, plan, shards"
    subprocess.run([sys.executable, "-c", code], check=True)
