"""Using the demo model needs no torch; training it says so in one sentence."""

from __future__ import annotations

import ast
import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from keyelab.errors import KeyelabError
from keyelab.models.demo import agree, checkpoint, convert, train, trial

ROOT = Path(__file__).parents[4]


def test_neither_a_phase_nor_a_command_imports_the_packages_of_training(tmp_path: Path) -> None:
    """Importing them fails here, installed or not; CI runs the phases themselves without them."""
    for name in ("torch", "transformers", "tokenizers"):
        (tmp_path / f"{name}.py").write_text(f"raise AssertionError('{name} was imported')\n")
    modules = [
        ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for path in (ROOT / "keyelab").rglob("*.py")
        if path.parent.name != "demo" and path.stem not in ("__init__", "__main__")
    ]
    books = [ast.parse(path.read_text()) for path in (ROOT / "notebooks").glob("0*.py")]
    lines = {ast.unparse(node) for book in books for node in ast.walk(book) if is_import(node)}
    code = "\n".join(["import papermill", *(f"import {name}" for name in modules), *sorted(lines)])
    env = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run([sys.executable, "-"], input=code, text=True, env=env, cwd=ROOT)
    assert done.returncode == 0
    assert len(books) == 8


def is_import(node: ast.AST) -> bool:
    return isinstance(node, ast.Import | ast.ImportFrom)


def without(monkeypatch: pytest.MonkeyPatch, missing: str) -> None:
    real = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == missing else real(name)
    )


@pytest.mark.parametrize("missing", ["torch", "tokenizers"])
def test_training_without_a_package_of_the_extra_says_what_to_install(
    missing: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if missing != "torch" and importlib.util.find_spec("torch") is None:
        pytest.skip("torch is missing here and named first")
    without(monkeypatch, missing)
    assert train.main(["--out", str(tmp_path / "run")]) == 1
    told = capsys.readouterr().err
    assert f"expected {missing} for training, found none" in told
    assert "pip install 'keyelab[train]'" in told
    assert not (tmp_path / "run").exists()


def test_a_comparison_without_transformers_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(KeyelabError, match="expected torch and transformers") as caught:
        agree.compare("http://127.0.0.1:1")
    assert "keyelab[train]" in caught.value.hint


def test_weights_that_are_not_there_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(checkpoint, "require_extra", lambda: None)
    missing = tmp_path / "weights.pt"
    assert convert.main([str(missing), str(tmp_path)]) == 1
    assert f"found no file {missing}" in capsys.readouterr().err


def test_a_server_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(KeyelabError, match=r"expected llama-server at /no/such") as caught:
        trial.find_server("/no/such/llama-server")
    assert "keyelab run --to build" in caught.value.hint


def test_a_server_that_ends_at_once_is_told_with_its_log(tmp_path: Path) -> None:
    pair = tmp_path / "a.gguf", tmp_path / "b.gguf"
    log = tmp_path / "server.log"
    with (
        pytest.raises(KeyelabError, match=r"found it ended .*server\.log"),
        trial.served(Path("/bin/false"), pair, log),
    ):
        pytest.fail("it is not ready")


def test_an_answer_that_is_no_text_is_put_down_to_the_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trial, "_until_ready", lambda *given: None)
    said = "found HTTP 200: The model produced output that does not match the expected peg-native"
    with (
        pytest.raises(KeyelabError, match="bytes that are no text: they are hardly trained"),
        trial.served(Path("/bin/cat"), (tmp_path, tmp_path), tmp_path / "log"),
    ):
        raise KeyelabError(said)
    with (
        pytest.raises(KeyelabError, match="another"),
        trial.served(Path("/bin/cat"), (tmp_path, tmp_path), tmp_path / "log"),
    ):
        raise KeyelabError("another")


def test_steps_that_were_trained_twice_count_once(tmp_path: Path) -> None:
    for step, right in ((50, {"caption, plain": 0.0}), (100, {}), (100, {"caption, plain": 0.5})):
        checkpoint.note(tmp_path, {"step": step, "right": right})
    found = checkpoint.rows(tmp_path)
    assert [(row["step"], row["captions"]) for row in found] == [(50, 0.0), (100, 0.5)]
    assert checkpoint.rows(tmp_path / "none") == []


def rows(right: int, of: int = 100) -> list[dict[str, object]]:
    return [{"asked": "caption", "right": right, "of": of, "share": right / of}]


def test_poor_weights_are_called_poor_or_refused() -> None:
    assert trial.require(rows(98), 0.97) == "98 of 100 captions are right"
    assert "not trained enough" in trial.require(rows(3), 0)
    with pytest.raises(KeyelabError, match=r"at least 97%.* 96 of 100") as caught:
        trial.require(rows(96), 0.97)
    assert "least_caption_share" in caught.value.hint


def test_installing_replaces_the_pair_and_its_sums(tmp_path: Path) -> None:
    new, package = tmp_path / "new", tmp_path / "package"
    new.mkdir()
    package.mkdir()
    pair = new / "keyelab-tiny-f16.gguf", new / "mmproj-keyelab-tiny-f16.gguf"
    for path in pair:
        path.write_bytes(path.name.encode())
    sums = trial.install(pair, package)
    assert [path.name for path in sorted(package.iterdir())] == [
        "SHA256SUMS", *(path.name for path in pair)
    ]  # fmt: skip
    subprocess.run(["sha256sum", "--check", sums.name], cwd=package, check=True)
