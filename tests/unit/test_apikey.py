from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from keyelab import apikey
from keyelab.errors import UsageError

KEY = "planted-key-0123456789"


@pytest.fixture
def key_file(tmp_path: Path) -> Callable[..., str]:
    def make(text: str, mode: int = 0o600) -> str:
        path = tmp_path / "key"
        path.write_bytes(text.encode())
        path.chmod(mode)
        return str(path)

    return make


def test_first_key_is_read_as_the_server_reads_it(key_file: Callable[..., str]) -> None:
    assert apikey.read(key_file(f"# mine\n\n{KEY}\nanother-key-0123456789\n")) == KEY


def test_file_comes_before_the_variable(
    key_file: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LLAMA_API_KEY", "of-the-environment")
    assert apikey.read() == "of-the-environment"
    assert apikey.headers(key_file(KEY)) == {"Authorization": f"Bearer {KEY}"}


def test_without_a_key_there_is_no_header(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LLAMA_API_KEY", raising=False)
    assert apikey.headers() == {}


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o644])
def test_file_that_others_can_open_is_refused(key_file: Callable[..., str], mode: int) -> None:
    with pytest.raises(UsageError, match=f"found mode {mode:o}") as error:
        apikey.read(key_file(KEY, mode))
    assert error.value.hint.startswith("chmod 600 ")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "found none"),
        ("# only a comment\n\n", "found none"),
        (f"{KEY}\r\n", "control characters"),
        (f"{KEY} \n", "blanks"),
        ("clé-0123456789abcdef\n", "than ASCII"),
        ("short\n", "at least 16 characters"),
    ],
)
def test_key_that_no_client_could_send_is_refused(
    key_file: Callable[..., str], text: str, said: str
) -> None:
    with pytest.raises(UsageError, match=said) as error:
        apikey.read(key_file(text))
    assert KEY not in str(error.value)


@pytest.mark.parametrize("key", [f"{KEY}\n", f"two {KEY}", "clé-0123456789abcdef"])
def test_variable_that_no_client_could_send_is_refused(
    monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    monkeypatch.setenv("LLAMA_API_KEY", key)
    with pytest.raises(UsageError, match="in LLAMA_API_KEY") as error:
        apikey.read()
    assert KEY not in str(error.value)


def test_a_short_key_is_refused_wherever_it_stands(
    key_file: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LLAMA_API_KEY", "tooshort")
    for file in ("", key_file(f"{KEY}\ntooshort\n")):
        with pytest.raises(UsageError, match=r"at least 16 characters .* found 8"):
            apikey.read(file)


def test_client_goes_past_proxies_and_without_a_key_for_whoever_listens(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("LLAMA_API_KEY", KEY)
    with apikey.session() as own, apikey.session(None) as stranger:
        assert (own.trust_env, own.headers["Authorization"]) == (False, f"Bearer {KEY}")
        assert (stranger.trust_env, "Authorization" in stranger.headers) == (False, False)


def test_missing_file_is_named(tmp_path: Path) -> None:
    for path in (tmp_path / "none", tmp_path):
        with pytest.raises(UsageError, match="found no file"):
            apikey.read(str(path))
