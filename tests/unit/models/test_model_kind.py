"""A file that should be GGUF says what it is instead, and is left alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from keyelab.errors import KeyelabError
from keyelab.models.header import read
from keyelab.models.kind import require_gguf

POINTER = (
    "version https://git-lfs.github.com/spec/v1\noid sha256:" + "0" * 64 + "\nsize 61203283968\n"
)
PAGE = "<!DOCTYPE html>\n<html><head><title>x</title></head><body>login</body></html>\n"


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (b"", "0 bytes"),
        (POINTER.encode(), "git-lfs pointer of 136 bytes to a file of 61203283968 bytes"),
        (PAGE.encode(), "a web page (HTML)"),
        (b"\xef\xbb\xbf\n  <HTML><body>login", "a web page (HTML)"),
        (b"tjgg\x03\x00\x00\x00", "an old GGML file (ggjt), not GGUF"),
        (b"lmgg\x00\x00", "an old GGML file (ggml), not GGUF"),
        (b"PK\x03\x04rest", "a zip archive or PyTorch checkpoint"),
        (b'\x40\x00\x00\x00\x00\x00\x00\x00{"t":1}', "a safetensors file"),
        (b'{"Code":10010,"Message":"no"}', "JSON text"),
        (b"GG", "a file that starts with b'GG'"),
    ],
)
@pytest.mark.parametrize("role", ["model", "mmproj"])
def test_a_file_that_is_no_gguf_is_named(
    tmp_path: Path, content: bytes, found: str, role: str
) -> None:
    path = tmp_path / "keye.gguf"
    path.write_bytes(content)
    with pytest.raises(KeyelabError) as caught:
        read(path, role)
    assert found in caught.value.message
    assert role in caught.value.message
    assert caught.value.hint
    assert path.read_bytes() == content


def test_a_pointer_is_answered_with_the_commands_that_fetch_the_file(tmp_path: Path) -> None:
    path = tmp_path / "keye.gguf"
    path.write_text(POINTER)
    with pytest.raises(KeyelabError) as caught:
        require_gguf(path)
    assert "lfs pull --include keye.gguf" in caught.value.hint
    assert "modelscope download" in caught.value.hint


def test_a_missing_file_names_the_parameter(tmp_path: Path) -> None:
    with pytest.raises(KeyelabError, match="found none") as caught:
        require_gguf(tmp_path / "absent.gguf", "mmproj")
    assert "model_fetch.mmproj_file" in caught.value.hint


def test_a_folder_is_no_model(tmp_path: Path) -> None:
    with pytest.raises(KeyelabError, match="something that is no file"):
        require_gguf(tmp_path)


def test_an_unreadable_file_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(b"GGUF")

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(KeyelabError, match="Permission denied"):
        require_gguf(path)
