"""Hubs are asked through their Python packages (stand-ins here) and fail in one sentence."""

from __future__ import annotations

import sys
import types
from pathlib import Path
from typing import Any

import pytest

from keyelab.errors import KeyelabError, ProgramMissing
from keyelab.models import hub
from keyelab.params import ModelFetch

MODEL = "keye.gguf"


@pytest.fixture(autouse=True)
def _no_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("modelscope_hub", "huggingface_hub"):
        monkeypatch.setitem(sys.modules, name, None)


def params(source: str, revision: str = "") -> ModelFetch:
    return ModelFetch(source=source, repo="a/b", revision=revision)  # type: ignore[arg-type]


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


def entry(name: str, lfs: dict[str, Any] | None = None) -> types.SimpleNamespace:
    return types.SimpleNamespace(rfilename=name, size=9, lfs=lfs)


@pytest.mark.parametrize("source", ["modelscope", "huggingface"])
def test_without_the_python_package_the_listing_is_unknown(source: str) -> None:
    assert hub.listing(params(source), [MODEL]) == {}


def test_hugging_face_lists_sizes_and_digests(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = hugging_face(monkeypatch, [entry(MODEL, {"sha256": "1" * 64}), entry("README.md")])
    found = hub.listing(params("huggingface"), [MODEL])
    assert found == {MODEL: hub.Listed(9, "1" * 64), "README.md": hub.Listed(9, None)}
    assert asked == [("a/b", None, True)]


def test_modelscope_lists_sizes_and_digests(monkeypatch: pytest.MonkeyPatch) -> None:
    class HubApi:
        def list_repo_files(self, repo: str, kind: str, *, revision: str) -> list[Any]:
            assert (repo, kind, revision) == ("a/b", "model", "v1")
            return [types.SimpleNamespace(path=MODEL, size=9, sha256="2" * 64)]

    stand_in(monkeypatch, "modelscope_hub", HubApi=HubApi)
    found = hub.listing(params("modelscope", "v1"), [MODEL])
    assert found == {MODEL: hub.Listed(9, "2" * 64)}


def test_a_file_the_repository_lacks_is_named_with_those_it_has(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hugging_face(monkeypatch, [entry(MODEL)])
    with pytest.raises(KeyelabError, match=r"expected keye2.gguf at huggingface a/b") as caught:
        hub.listing(params("huggingface"), ["keye2.gguf"])
    assert caught.value.hint.endswith("files it has: keye.gguf")


@pytest.mark.parametrize(
    ("error", "found"),
    [
        (ConnectionError("[Errno -2] Name or service not known"), "no network: ConnectionError"),
        (TimeoutError("The read operation timed out"), "no network: TimeoutError"),
        (ValueError("401 Client Error. Repository Not Found"), "found ValueError: 401 Client"),
    ],
)
def test_a_hub_that_does_not_answer_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch, error: Exception, found: str
) -> None:
    hugging_face(monkeypatch, error)
    with pytest.raises(KeyelabError) as caught:
        hub.listing(params("huggingface"), [MODEL])
    assert found in caught.value.message
    assert "source: path" in caught.value.hint


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
    message = hub.undelivered("modelscope a/b", said).message
    assert message.startswith("expected files from modelscope a/b, found no network: ")
    assert "\x1b" not in message


@pytest.mark.parametrize(
    ("source", "package"), [("modelscope", "modelscope"), ("huggingface", "huggingface_hub")]
)
def test_a_missing_client_gives_the_pip_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, package: str
) -> None:
    monkeypatch.setattr(hub.sys, "executable", str(tmp_path / "python"))
    with pytest.raises(ProgramMissing) as caught:
        hub.command(params(source), [MODEL], tmp_path, {"PATH": str(tmp_path)})
    assert f"-m pip install -U {package}" in caught.value.hint
