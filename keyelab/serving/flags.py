"""The flags of one llama-server binary: they come and go between upstream versions."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from keyelab import shell
from keyelab.errors import KeyelabError, UsageError
from keyelab.files import shown

_FLAG = re.compile(r"-{1,2}[A-Za-z][\w-]*")
_OWNED = {
    "model": ("-m", "--model", "-mm", "--mmproj", "-hf", "--hf-repo"),
    "host": ("--host",),
    "port": ("--port",),
    "alias": ("-a", "--alias"),
    "context_tokens": ("-c", "--ctx-size"),
    "parallel": ("-np", "--parallel"),
    "threads": ("-t", "--threads"),
    "flash_attention": ("-fa", "--flash-attn"),
    "cache_ram_mib": ("-cram", "--cache-ram"),
}


def of(program: Path, env: Mapping[str, str]) -> frozenset[str]:
    """Every flag that `--help` of a binary lists; KeyelabError when it cannot be run."""
    if not program.is_file():
        raise KeyelabError(
            f"expected llama-server at {shown(program)}, found none",
            "build it: keyelab run --to build",
        )
    said = shell.run([program, "--help"], env=env, timeout_s=60, check=False)
    flags = parse(said.output)
    if "--port" not in flags:
        last = ([line for line in said.output.splitlines() if line.strip()] or ["nothing"])[-1]
        raise KeyelabError(
            f"expected {shown(program)} --help to list its flags, it ended with status "
            f"{said.returncode}: {last[:200]}",
            "build it again: keyelab run --from build --set build.reuse=false",
        )
    return flags


def parse(text: str) -> frozenset[str]:
    """The flags in a help text: the words that begin with - at the head of a line."""
    flags: set[str] = set()
    for line in text.splitlines():
        for word in line.replace(",", " ").split() if line.startswith("-") else []:
            if not _FLAG.fullmatch(word):
                break
            flags.add(word)
    return frozenset(flags)


def check_extra(extra: Sequence[str], known: Collection[str]) -> None:
    """Refuse extra arguments that the binary does not know, that a parameter sets, or secrets.

    Raises UsageError that names the argument.
    """
    for word in extra:
        if not re.match(r"-{1,2}[A-Za-z]", word):
            continue
        owner = next((name for name, flags in _OWNED.items() if word in flags), None)
        if owner == "model":
            raise UsageError(
                f"serve.extra_args holds {word}, which comes from 02_model_fetch",
                "set model_fetch.model_file or model_fetch.mmproj_file",
            )
        if owner:
            raise UsageError(
                f"serve.extra_args holds {word}, which serve.{owner} sets",
                f"take it out and set serve.{owner}",
            )
        if word == "--api-key":
            raise UsageError(
                "serve.extra_args holds --api-key: it would stand in records and process lists",
                "export LLAMA_API_KEY before the start, or use --api-key-file",
            )
        if word not in known:
            close = difflib.get_close_matches(word, known, n=1)
            meant = f"; did you mean {close[0]}?" if close else ""
            raise UsageError(
                f"serve.extra_args holds {word}, which this llama-server does not know{meant}",
                "list its flags: llama-server --help (a value follows its flag as its own item)",
            )
