"""Why a server did not start, and what went wrong although it did: read from its log."""

from __future__ import annotations

import re

from keyelab.files import project_root

_REMEDIES = (
    (
        r"not within the file bounds|corrupted or incomplete|(?:invalid|bad) magic|failed to open "
        r"|has wrong shape",
        "the model is missing or damaged: keyelab run --from model_fetch",
    ),
    (
        r"mismatch between text model|(?i:failed to load CLIP model)|unknown projector type",
        "the projector does not fit the model, or needs a newer source: set "
        "model_fetch.mmproj_file, then keyelab run --from model_fetch",
    ),
    (
        r"(?:unsupported|unknown) model architecture",
        "this llama.cpp does not know the model: check model_fetch.model_file, or take the "
        "model's own branch in source_patch",
    ),
    (
        r"couldn't bind",
        "another program took the port: keyelab status, or set serve.port to 0",
    ),
    (
        r"invalid argument|error while handling argument",
        "this llama-server does not take the argument: see serve.extra_args, llama-server --help",
    ),
    (
        r"(?i)out of memory|failed to allocate|cannot allocate|unable to allocate",
        "lower serve.context_tokens or serve.parallel, or keep the projector on the CPU with "
        "--no-mmproj-offload in serve.extra_args",
    ),
    (
        r"error while loading shared libraries|cannot open shared object",
        "a library is missing: load the toolkit's environment, or keyelab run --from build",
    ),
    (
        r"has no device code|Launch params .* larger than launch bounds",
        "the kernels do not fit this card: choose another recipe, keyelab run --from source_patch",
    ),
)
_ERROR = re.compile(r"^\S*\d+\.\d{2}\.\d{3}\.\d{3} E |\berror:|GGML_ASSERT|terminate called")
_GRAVE = re.compile(r"(?i)out of memory|failed to allocate|Launch params .* larger|no device code")
_STAMP = re.compile(r"^\d+\.\d{2}\.\d{3}\.\d{3} [DIWE] ")


def first(log: str) -> tuple[str, str]:
    """The first line whose cause is known and its remedy, else an error or the last line and ''."""
    lines = [line for line in log.splitlines() if line.strip()]
    for line in lines:
        for sign, remedy in _REMEDIES:
            if re.search(sign, line):
                return message(line), remedy
    return [*errors(log), *map(message, lines[-1:]), "its log is empty"][0], ""


def errors(log: str) -> list[str]:
    """Error lines of a log, without their time."""
    return [message(line) for line in log.splitlines() if _ERROR.search(line)]


def grave(lines: list[str]) -> list[str]:
    """Those error lines after which answers cannot be trusted although the server is up."""
    return [line for line in lines if _GRAVE.search(line)]


def message(line: str) -> str:
    """A log line without its time, level and the checkout's path, at most 240 characters."""
    return _STAMP.sub("", line.strip()).replace(f"{project_root()}/", "")[:240]
