"""A llama-server with freshly converted weights, for the time of an exam, and what it is worth."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import requests

from keyelab.errors import KeyelabError
from keyelab.files import located, sha256_file, shown, write_bytes, write_text

PACKAGED = Path(__file__).parent


def find_server(named: str = "") -> Path:
    """The llama-server at the path `named`, else of the newest build below work/builds/.

    Raises KeyelabError when there is none.
    """
    built = located("work/builds").glob("*/bin/llama-server")
    real = [path for path in built if path.read_bytes()[:4] == b"\x7fELF"]  # not the smoke target's
    newest = sorted(real, key=lambda path: path.stat().st_mtime)[-1:]
    found = [located(named)] if named else newest
    if not found or not found[0].is_file():
        raise KeyelabError(
            f"expected llama-server {'at ' + named if named else 'below work/builds'}, found none",
            "build it: keyelab run --to build; or name one with the parameter server",
        )
    return found[0]


@contextlib.contextmanager
def served(program: Path, pair: tuple[Path, Path], log: Path, wait_s: float = 60) -> Iterator[str]:
    """The URL of a server of that program with model and projector; it ends with the block.

    Raises KeyelabError when it ends early or is not ready after `wait_s`.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    model, projector = map(str, pair)
    words = ["-m", model, "--mmproj", projector, "-c", "8192", "-np", "1", "-t", "1"]
    argv = [str(program), *words, "--cache-ram", "0", "--host", "127.0.0.1", "--port", str(port)]
    url = f"http://127.0.0.1:{port}"
    with log.open("wb") as sink:
        process = subprocess.Popen(argv, stdout=sink, stderr=sink, env=dict(os.environ))
        try:
            _until_ready(process, url, log, wait_s)
            yield url
        except KeyelabError as error:
            if "does not match the expected" not in error.message:
                raise
            raise KeyelabError(
                "expected words of the new weights, found bytes that are no text: "
                "they are hardly trained",
                "train longer: more steps or minutes",
            ) from None
        finally:
            process.terminate()
            process.wait(20)


def _until_ready(process: subprocess.Popen[bytes], url: str, log: Path, wait_s: float) -> None:
    end = time.monotonic() + wait_s
    while process.poll() is None and time.monotonic() < end:
        with contextlib.suppress(requests.exceptions.RequestException):
            if requests.get(url + "/health", timeout=2).ok:
                return
        time.sleep(0.1)
    raise KeyelabError(
        f"expected a server with the new weights, found it "
        f"{'not ready' if process.poll() is None else 'ended'} ({shown(log)})",
        f"read the log: tail {shown(log)}",
    )


def require(rows: Sequence[Mapping[str, Any]], least: float) -> str:
    """What the exam's rows say of captions; raises KeyelabError below the share `least`."""
    row = next(one for one in rows if one["asked"] == "caption")
    told = f"{row['right']} of {row['of']} captions are right"
    if row["share"] < least:
        raise KeyelabError(
            f"expected at least {least:.0%} of the captions right, found that {told}",
            "train longer (minutes or steps) into another folder, or set least_caption_share: 0",
        )
    return told if row["share"] >= 0.9 else f"{told}: these weights are not trained enough to use"


def install(pair: tuple[Path, Path], folder: Path = PACKAGED) -> Path:
    """Put the pair into the package in place of the files there; returns its SHA256SUMS."""
    for path in pair:
        write_bytes(folder / path.name, path.read_bytes())
    sums = "".join(f"{sha256_file(path)}  {path.name}\n" for path in pair)
    return write_text(folder / "SHA256SUMS", sums)


def card(
    pair: tuple[Path, Path],
    settings: Any,
    rows: Sequence[Mapping[str, Any]],
    verdict: str,
    table: str,
) -> str:
    """A model card of a run, as markdown; `rows` of its log, `table` of its exam."""
    last = rows[-1] if rows else {}
    files = "\n".join(
        f"| `{path.name}` | {path.stat().st_size:,} | `{sha256_file(path)}` |" for path in pair
    )
    told = (
        f"{last['dialogues']:,} dialogues in {last['seconds']:.0f} s"
        if last
        else "fewer than 50 steps"
    )
    return (
        f"# Demo model, trained again\n\n{verdict}.\n\n"
        f"| file | bytes | sha256 |\n| --- | ---: | --- |\n{files}\n\n"
        f"Training: {told}; {settings}.\n\n## Exam\n\n{table}\n"
    )
