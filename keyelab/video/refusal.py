"""Why a file is no video that can be used: one sentence each, with the next command."""

from __future__ import annotations

import shlex
from pathlib import Path

from keyelab.errors import KeyelabError
from keyelab.files import shown


def refuse_early(path: Path) -> None:
    """Raise KeyelabError for what is seen without a demuxer.

    Missing, a folder, 0 bytes, a Git LFS pointer, a web page, or an MP4 without its index.
    """
    name = shown(path)
    if not path.exists():
        raise KeyelabError(
            f"expected a video at {name}, found nothing there",
            "set video_test.video to an existing file; empty makes a demo clip",
        )
    if path.is_dir():
        raise KeyelabError(f"expected a video file at {name}, found a folder", f"ls {name}")
    size = path.stat().st_size
    if size == 0:
        raise KeyelabError(
            f"expected a video in {name}, found 0 bytes", "copy or record the file again"
        )
    with path.open("rb") as stream:
        head = stream.read(512)
    if head.startswith(b"version https://git-lfs"):
        raise KeyelabError(
            f"expected a video in {name}, found a Git LFS pointer ({size} bytes)",
            f"git lfs pull --include {quoted(path)}",
        )
    if head.lstrip().lower().startswith((b"<!doctype", b"<html")):
        raise KeyelabError(
            f"expected a video in {name}, found a web page", "download the file itself again"
        )
    if head[4:8] == b"ftyp" and not has_index(path):
        raise KeyelabError(
            f"expected the index (moov) of an MP4 in {name}, found none: "
            f"the recording or the copy was interrupted ({size} bytes are there)",
            "copy the file again, or rebuild its index with a good file of the same camera: "
            f"untrunc good.mp4 {quoted(path)}",
        )


def has_index(path: Path) -> bool:
    """Whether an MP4 holds a whole moov box, by walking its top-level boxes."""
    size = path.stat().st_size
    with path.open("rb") as stream:
        position = 0
        while position + 8 <= size:
            stream.seek(position)
            head = stream.read(16)
            length = int.from_bytes(head[:4], "big")
            if length == 1:
                length = int.from_bytes(head[8:16], "big")
            if length == 0:
                length = size - position
            if head[4:8] == b"moov":
                return position + length <= size
            if length < 8:
                return False
            position += length
    return False


def undecodable(path: Path, codec: str) -> KeyelabError:
    """The codec is not one that this PyAV decodes."""
    return KeyelabError(
        f"codec {codec} of {shown(path)} cannot be decoded by this PyAV",
        f"convert it: ffmpeg -i {quoted(path)} -c:v libx264 -pix_fmt yuv420p converted.mp4",
    )


def unreadable(path: Path, error: Exception) -> KeyelabError:
    """FFmpeg does not know this as a video."""
    said = " ".join(str(getattr(error, "strerror", None) or error).split())
    return KeyelabError(
        f"expected a video in {shown(path)}, found a file that FFmpeg cannot read ({said})",
        f"see what it is: file {quoted(path)}",
    )


def quoted(path: Path) -> str:
    """The path for a shell; a leading dash is kept from being an option."""
    text = shown(path)
    return shlex.quote(f"./{text}" if text.startswith("-") else text)
