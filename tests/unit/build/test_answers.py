from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from keyelab.build import answers
from keyelab.errors import KeyelabError

STUB = Path(__file__).parents[2] / "data" / "build" / "answering_server.py"
ARGV = [sys.executable, STUB]


def test_server_answers_without_flags_from_the_environment_and_is_gone_afterwards(
    tmp_path: Path,
) -> None:
    env = {**os.environ, "LLAMA_ARG_PORT": "1", "LLAMA_API_KEY": "k"}
    with answers.server(ARGV, env, tmp_path / "log") as ask:
        assert answers.tokenize(ask, " 37 74 111") == [37, 74, 111]
        answer = answers.greedy(ask, [1, 2, 3] * 5, 16)
    assert len(answer.tokens) == 16
    assert answer.took_s > 0
    with pytest.raises(KeyelabError, match="ended with status"):
        ask("/tokenize", {"content": ""})


def test_server_that_ends_while_loading_is_named_with_its_last_words(tmp_path: Path) -> None:
    env = {**os.environ, "STUB": '{"dies": true}'}
    with (
        pytest.raises(KeyelabError, match=r"ended with status 1: .*out of memory"),
        answers.server(ARGV, env, tmp_path / "log"),
    ):
        pytest.fail("it cannot have started")
    assert str(STUB) in (tmp_path / "log").read_text()
