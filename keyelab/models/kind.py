"""What a file that should be GGUF is instead: a pointer, a web page, an older format, nothing."""

from __future__ import annotations

import re
from pathlib import Path

from keyelab.errors import KeyelabError
from keyelab.files import shown

MAGIC = b"GGUF"
_HEAD_BYTES = 1024
_LFS = b"version https://git-lfs.github.com/spec/"
# the magics of llama.cpp's formats before GGUF, as they stand in a little-endian file
_OLD = {b"lmgg": "ggml", b"fmgg": "ggmf", b"tjgg": "ggjt", b"algg": "ggla", b"nsgg": "ggsn"}
_OTHER = {
    b"PK\x03\x04": "a zip archive or PyTorch checkpoint",
    b"\x1f\x8b": "a gzip archive",
    b"\x89HDF": "an HDF5 file",
    b"{": "JSON text, such as a server's error answer",
    b"<?xml": "XML, such as a server's error answer",
}


def require_gguf(path: Path, role: str = "model") -> None:
    """Raise KeyelabError unless `path` is a file that starts as GGUF; it says what it is instead.

    The file is never changed or removed.
    """
    where = shown(path)
    if not path.is_file():
        found = "something that is no file" if path.exists() else "none"
        raise KeyelabError(
            f"expected the {role} file {where}, found {found}",
            f"set model_fetch.{role}_file and model_dir: ls -l {shown(path.parent)}",
        )
    try:
        with path.open("rb") as stream:
            head = stream.read(_HEAD_BYTES)
    except OSError as error:
        raise KeyelabError(
            f"expected to read the {role} file {where}, found: {error.strerror}", f"ls -l {where}"
        ) from None
    if head[:4] != MAGIC:
        what, remedy = _named(head, path)
        raise KeyelabError(f"expected a GGUF file at {where} ({role}), found {what}", remedy)


def _named(head: bytes, path: Path) -> tuple[str, str]:
    again = f"move {path.name} away and download the file itself, not its web page"
    if not head:
        return "a file of 0 bytes", f"remove it and download again: rm {shown(path)}"
    if head.startswith(_LFS):
        size = re.search(rb"^size (\d+)\s*$", head, re.MULTILINE)
        expected = f"{int(size[1])} bytes" if size else "unknown size"
        return (
            f"a git-lfs pointer of {path.stat().st_size} bytes to a file of {expected}",
            f"git -C {shown(path.parent)} lfs pull --include {path.name}, or "
            f"modelscope download --model OWNER/NAME --include {path.name} --local_dir FOLDER",
        )
    text = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    if text[:14].lower().startswith((b"<!doctype html", b"<html")):
        return "a web page (HTML)", again
    if head[:4] in _OLD:
        return (
            f"an old GGML file ({_OLD[head[:4]]}), not GGUF",
            "download the GGUF file of this model: llama.cpp reads GGUF only",
        )
    if head[8:9] == b"{":
        return "a safetensors file", "convert it: python convert_hf_to_gguf.py FOLDER"
    for magic, what in _OTHER.items():
        if text.startswith(magic):
            return what, again
    return f"a file that starts with {head[:4]!r}", again
