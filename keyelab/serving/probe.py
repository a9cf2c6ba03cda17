"""One HTTP question to a server on this machine, past every proxy."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

KEY_VARIABLE = "LLAMA_API_KEY"  # llama-server reads its key from here as well


@dataclass(frozen=True)
class Answer:
    """Status, the JSON object of the body (None when it is none) and the body's first words."""

    status: int
    json: dict[str, Any] | None
    text: str

    @property
    def loading(self) -> bool:
        """Whether this is llama-server's own 'Loading model', and not a proxy's 503."""
        error = (self.json or {}).get("error")
        if self.status != 503 or not isinstance(error, dict):
            return False
        return error.get("type") == "unavailable_error" or error.get("message") == "Loading model"


def get(url: str, path: str, timeout_s: float = 5.0) -> Answer | None:
    """GET a path; None when nobody answers in time.

    The proxy variables of the environment are not used: they would send loopback calls away.
    """
    import requests

    with requests.Session() as session:
        session.trust_env = False
        if key := os.environ.get(KEY_VARIABLE):
            session.headers["Authorization"] = f"Bearer {key}"
        try:
            response = session.get(url + path, timeout=timeout_s)
        except requests.RequestException:
            return None
        try:
            body = response.json()
        except ValueError:
            body = None
        words = " ".join(response.text.split())[:120]
        return Answer(response.status_code, body if isinstance(body, dict) else None, words)
