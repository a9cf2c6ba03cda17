"""One HTTP question to a server on this machine, past every proxy."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from keyelab import apikey
from keyelab.errors import KeyelabError

if TYPE_CHECKING:
    import requests

_PROXIES = ("http_proxy", "all_proxy")
_LARGEST_BYTES = 16 * 2**20  # /props holds the chat template


class KeyRefused(KeyelabError):
    """A server is up and wants another API key."""


@dataclass(frozen=True)
class Answer:
    """What came back: HTTP status (None: nothing in time), JSON content, who signs as server."""

    status: int | None = None
    content: Any = None
    server: str = ""

    @property
    def is_llama(self) -> bool:
        """Whether llama-server has answered: it signs so, and its errors have a shape."""
        error = self.content.get("error") if isinstance(self.content, dict) else None
        return self.server == "llama.cpp" or (isinstance(error, dict) and "type" in error)


def ask(url: str, path: str, timeout_s: float = 5.0) -> Answer:
    """GET without the API key, for whoever it may be that listens there, whatever it answers.

    The proxy variables of the environment are not used: they would send loopback calls away.
    """
    return _ask(url + path, timeout_s, apikey.session(None))


def get(
    url: str, path: str, api_key_file: str = "", timeout_s: float = 5.0
) -> dict[str, Any] | None:
    """The JSON object of a 200 answer to GET; None for every other answer, or none in time.

    Raises KeyRefused for 401.
    """
    answer = _ask(url + path, timeout_s, apikey.session(api_key_file))
    if answer.status == 401:
        way = f"put its key into {api_key_file}" if api_key_file else f"export {apikey.VARIABLE}"
        raise KeyRefused(
            f"the server at {url} is up and refuses the API key (401 for {path})",
            f"{way} and run the phase again, or end it: keyelab stop",
        )
    return answer.content if answer.status == 200 and isinstance(answer.content, dict) else None


def proxied(url: str, timeout_s: float = 5.0) -> str:
    """What a client gets that follows this environment's proxies, where that is not the server.

    '' when such a client reaches it too. Clients are other programs, which keyelab cannot tell to
    go past a proxy.
    """
    if not any(os.environ.get(name) or os.environ.get(name.upper()) for name in _PROXIES):
        return ""
    import requests

    answer = _ask(f"{url}/health", timeout_s, requests.Session())
    if answer.status == 200 and answer.server == "llama.cpp":
        return ""
    said = f"HTTP {answer.status} from {answer.server or 'a proxy'}" if answer.status else "nothing"
    return said


def _ask(url: str, timeout_s: float, session: requests.Session) -> Answer:
    from requests import RequestException
    from urllib3.exceptions import HTTPError

    with session:
        try:
            # with a limit: what is there may be no server of ours, and its answer may never end
            with session.get(url, timeout=timeout_s, stream=True, allow_redirects=False) as answer:
                body = answer.raw.read(_LARGEST_BYTES, decode_content=True)
        except (RequestException, HTTPError, OSError):
            return Answer()
    try:
        content = json.loads(body)
    except ValueError:
        content = None
    return Answer(answer.status_code, content, answer.headers.get("Server", ""))
