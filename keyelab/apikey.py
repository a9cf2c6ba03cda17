"""The API key of a server: in a file or in LLAMA_API_KEY, never among words or in a record."""

from __future__ import annotations

import os

from keyelab.errors import UsageError
from keyelab.files import located, shown

VARIABLE = "LLAMA_API_KEY"  # llama-server reads its key from here as well
_SHORTEST = 16


def read(file: str = "") -> str:
    """The first key in `file`, or what LLAMA_API_KEY holds without one; '' when there is none.

    A key a line; empty lines and those that start with # are left out, as llama-server does.
    Raises UsageError for a file that is missing, open to others, or without a usable key.
    """
    if not file:
        return os.environ.get(VARIABLE, "")
    path = located(file)
    what = f"in serve.api_key_file ({shown(path)})"
    if not path.is_file():
        raise UsageError(
            f"expected an API key {what}, found no file",
            f"(umask 077; openssl rand -hex 32 > {shown(path)})",
        )
    if others := path.stat().st_mode & 0o077:
        raise UsageError(
            f"expected an API key that only its owner can read {what}, found mode "
            f"{path.stat().st_mode & 0o777:o} ({others:o} for others)",
            f"chmod 600 {shown(path)}",
        )
    try:
        lines = path.read_bytes().decode("ascii").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "other characters than ASCII"
        raise UsageError(f"expected an API key {what}, found: {why}", "make a new one") from None
    keys = [line for line in lines if line and not line.startswith("#")]
    if not keys:
        raise UsageError(
            f"expected an API key {what}, found none", f"openssl rand -hex 32 > {shown(path)}"
        )
    # the server would take a carriage return or a blank as part of the key, and no client sends it
    if any(not key.isprintable() or key != "".join(key.split()) for key in keys):
        raise UsageError(
            f"expected one API key a line {what}, found blanks or control characters",
            f"sed -i 's/[[:space:]]*$//' {shown(path)}",
        )
    if len(keys[0]) < _SHORTEST:
        raise UsageError(
            f"expected a key of at least {_SHORTEST} characters {what}, found {len(keys[0])}: "
            "llama-server writes the last four of them to its log",
            f"openssl rand -hex 32 > {shown(path)}",
        )
    return keys[0]


def headers(file: str = "") -> dict[str, str]:
    """What a request to the server carries; empty when there is no key."""
    key = read(file)
    return {"Authorization": f"Bearer {key}"} if key else {}
