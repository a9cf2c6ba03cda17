"""One HTTP question to a server on this machine, past every proxy."""

from __future__ import annotations

import os
from typing import Any

from keyelab.errors import KeyelabError


class KeyRefused(KeyelabError):
    """A server is up and wants another API key."""


KEY_VARIABLE = "LLAMA_API_KEY"  # llama-server reads its key from here as well


def get(url: str, path: str, timeout_s: float = 5.0) -> dict[str, Any] | None:
    """The JSON object of a 200 answer to GET; None for every other answer, or none in time.

    The proxy variables of the environment are not used: they would send loopback calls away.
    Raises KeyRefused for 401.
    """
    import requests

    with requests.Session() as session:
        session.trust_env = False
        if key := os.environ.get(KEY_VARIABLE):
            session.headers["Authorization"] = f"Bearer {key}"
        try:
            response = session.get(url + path, timeout=timeout_s)
            content = response.json()
        except requests.RequestException:
            return None
    if response.status_code == 401:
        raise KeyRefused(
            f"the server at {url} is up and refuses the API key (401 for {path})",
            f"export {KEY_VARIABLE} with its key and run the phase again",
        )
    return content if response.status_code == 200 and isinstance(content, dict) else None
