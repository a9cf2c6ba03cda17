"""Questions to a built llama-server that runs only as long as they take."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from keyelab import shell
from keyelab.errors import KeyelabError
from keyelab.files import shown

LOAD_S, ANSWER_S = 1800.0, 3600.0  # longest waits; the article's 57 GB took 129 s to load
Ask = Callable[[str, Mapping[str, Any]], dict[str, Any]]


@dataclass(frozen=True)
class Answer:
    """The greedy continuation of a prompt: token ids, their text, seconds with the prompt."""

    tokens: tuple[int, ...]
    text: str
    took_s: float


def tokenize(ask: Ask, text: str) -> list[int]:
    """Token ids of a text, by the server's model."""
    return list(ask("/tokenize", {"content": text})["tokens"])


def greedy(ask: Ask, prompt: Sequence[int], length: int) -> Answer:
    """The likeliest `length` tokens after `prompt` (token ids), computed anew."""
    wish = {"n_predict": length, "temperature": 0, "ignore_eos": True, "return_tokens": True}
    started = time.monotonic()
    said = ask("/completion", {"prompt": list(prompt), "cache_prompt": False, **wish})
    return Answer(tuple(said["tokens"]), said["content"], time.monotonic() - started)


@contextlib.contextmanager
def server(argv: Sequence[str | Path], env: Mapping[str, str], log: Path) -> Iterator[Ask]:
    """Run a llama-server on a free port of this machine; yields a function that POSTs JSON to it.

    Raises KeyelabError with its last words when it ends or does not answer in time.
    """
    import requests

    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
    words = [*map(str, argv), "--host", "127.0.0.1", "--port", str(port)]
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as sink, requests.Session() as session:
        session.trust_env = False  # a proxy would take loopback calls away
        sink.write(f"# $ {shell.quoted(words)}\n".encode())
        sink.flush()
        process = subprocess.Popen(
            words,
            # llama-server takes flags and its API key from variables
            env={name: value for name, value in env.items() if not name.startswith("LLAMA_")},
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=subprocess.STDOUT,
            preexec_fn=shell.own_group_and_die_with_parent,
        )

        def ask(path: str, body: Mapping[str, Any]) -> dict[str, Any]:
            try:
                response = session.post(
                    f"http://127.0.0.1:{port}{path}", json=body, timeout=ANSWER_S
                )
                content = response.json()
            except requests.RequestException as error:
                raise _failure(process, log, f"{path}: {type(error).__name__}") from None
            if response.status_code != 200:
                raise _failure(process, log, f"{path}: {response.text[:200]}")
            return dict(content)

        try:
            _wait(process, session, f"http://127.0.0.1:{port}/health", log)
            yield ask
        finally:
            for end in (process.terminate, process.kill):
                end()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(20)


def _wait(process: subprocess.Popen[bytes], session: Any, url: str, log: Path) -> None:
    import requests

    deadline = time.monotonic() + LOAD_S
    while process.poll() is None and time.monotonic() < deadline:
        with contextlib.suppress(requests.RequestException):
            if session.get(url, timeout=5).status_code == 200:
                return
        time.sleep(0.2)
    raise _failure(process, log, "/health: no answer while loading")


def _failure(process: subprocess.Popen[bytes], log: Path, asked: str) -> KeyelabError:
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(2)  # a connection breaks a moment before the process is gone
    code = process.returncode
    state = "runs" if code is None else f"ended with status {code}"
    lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return KeyelabError(
        f"expected an answer of llama-server to {asked}; it {state}: {lines[-1][:200]}",
        f"less {shown(log)}",
    )
