"""The API key of a server: in a file or in LLAMA_API_KEY, never among words or in a record."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from keyelab.errors import UsageError
from keyelab.files import located, shown

if TYPE_CHECKING:
    import requests

VARIABLE = "LLAMA_API_KEY"  # llama-server reads its key from here as well
_SHORTEST = 16


def read(file: str = "") -> str:
    """The first key in `file`, or what LLAMA_API_KEY holds without one; '' when there is none.

    A key a line; empty lines and those that start with # are left out, as llama-server does.
    Raises UsageError for a file that is missing, open to others, or without a usable key.
    """
    if not file:
        key = os.environ.get(VARIABLE, "")
        how = f"export {VARIABLE}=$(openssl rand -hex 32)"
        return _usable(key, f"in {VARIABLE}", how) if key else ""
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
        lines = path.read_bytes().decode("latin-1").split("\n")
    except OSError as error:
        raise UsageError(
            f"expected an API key {what}, found: {error.strerror}", f"ls -l {shown(path)}"
        ) from None
    keys = [line for line in lines if line and not line.startswith("#")]
    how = f"openssl rand -hex 32 > {shown(path)}"
    if not keys:
        raise UsageError(f"expected an API key {what}, found none", how)
    for key in keys:
        _usable(key, what, how)
    return keys[0]


def headers(file: str = "") -> dict[str, str]:
    """What a request to the server carries; empty when there is no key."""
    key = read(file)
    return {"Authorization": f"Bearer {key}"} if key else {}


def session(file: str | None = "") -> requests.Session:
    """A client with the key, or with none for None, that goes past every proxy.

    Proxies of the environment would send calls to this machine away.
    """
    import requests

    made = requests.Session()
    made.trust_env = False
    made.headers.update({} if file is None else headers(file))
    return made


def _usable(key: str, what: str, how: str) -> str:
    # the server would take a carriage return or a blank as part of it, and no client sends it
    if not key.isascii() or not key.isprintable() or " " in key:
        raise UsageError(
            f"expected an API key {what}, found blanks, control characters or others than ASCII",
            how,
        )
    if len(key) < _SHORTEST:
        raise UsageError(
            f"expected a key of at least {_SHORTEST} characters {what}, found {len(key)}: "
            "llama-server writes the last four of them to its log",
            how,
        )
    return key
