"""How many frames fit, with the arithmetic that says why."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from keyelab.errors import KeyelabError, UsageError
from keyelab.params import VideoTest
from keyelab.video.budget import Budget, check_of, computed, frames_to_send, measured, rows
from keyelab.video.chat import Reply
from keyelab.video.frame import Frame
from keyelab.video.sample import Pick

ARTICLE = Budget(1197, 40, 32760, 32768, measured=True)
PICKS = [Pick(i, i, i + 0.5, i + 0.5) for i in range(4)]
FRAME = Frame(1, PICKS[0], b"\xff", 96, 96)


class Server:
    """Counts a token a character of text and `cost` a picture."""

    def __init__(self, cost: int = 11) -> None:
        self.cost = cost
        self.asked: list[dict[str, Any]] = []

    def __call__(self, body: dict[str, Any]) -> Reply:
        self.asked.append(body)
        parts = body["messages"][0]["content"]
        tokens = sum(len(part.get("text", "")) or self.cost for part in parts)
        return Reply(usage={"prompt_tokens": tokens})


def test_the_arithmetic_of_a_refusal_is_written_out() -> None:
    with pytest.raises(UsageError) as caught:
        frames_to_send(ARTICLE, 10, VideoTest(max_tokens=32760))
    assert caught.value.message.endswith(
        "10 frames × 1,197 + 40 text + 32,760 answer = 44,770 > 32,768 tokens a slot"
    )
    assert "serve.context_tokens=44770" in caught.value.hint
    assert "max_tokens" in caught.value.hint


def test_fewer_frames_are_chosen_when_not_all_fit_and_that_is_said() -> None:
    budget = replace(ARTICLE, answer_tokens=20000)
    assert frames_to_send(budget, 10, VideoTest()) == 10
    assert frames_to_send(budget, 20, VideoTest()) == 10
    assert check_of(budget, 20, 10).status == "warned"
    assert "43,980 > 32,768" in check_of(budget, 20, 10).found
    assert check_of(budget, 10, 10).status == "ok"


def test_frames_at_given_times_are_refused_and_never_thinned_out() -> None:
    budget = replace(ARTICLE, answer_tokens=20000)
    with pytest.raises(UsageError, match="11 frames"):
        frames_to_send(budget, 11, VideoTest(times_s=[0.1] * 11))


def test_the_last_token_of_a_slot_counts() -> None:
    budget = Budget(10, 4, 6, 30, measured=True)
    assert budget.most() == 2
    assert "2 frames × 10 + 4 text + 6 answer = 30 ≤ 30" in budget.sum(2)


def test_an_unknown_context_is_unknown_and_limits_nothing() -> None:
    budget = replace(ARTICLE, slot_tokens=None)
    assert budget.most() is None
    assert frames_to_send(budget, 500, VideoTest()) == 500
    assert check_of(budget, 500, 500).status == "unknown"


def test_a_frames_cost_is_the_difference_that_it_makes_at_the_server() -> None:
    server = Server(cost=11)
    params = VideoTest(prompt="abc", more_prompts=["abcdef"], frame_text="F{number}", max_tokens=9)
    budget = measured(FRAME, PICKS, params, 100, server)
    assert budget == Budget(11, len("F1F2F3F4") + len("abcdef"), 9, 100, measured=True)
    assert [body["max_tokens"] for body in server.asked] == [1, 1]
    kinds = [part["type"] for part in server.asked[1]["messages"][0]["content"]]
    assert kinds == ["text", "image_url", "text", "text", "text", "text"], "as the question begins"


def test_without_labels_one_frame_is_counted_too() -> None:
    budget = measured(FRAME, PICKS, VideoTest(prompt="abc", frame_text=""), None, Server())
    assert (budget.frame_tokens, budget.text_tokens) == (11, 3)


@pytest.mark.parametrize("counts", [[{}, {}], [{"prompt_tokens": 9}, {"prompt_tokens": 9}]])
def test_a_server_that_does_not_count_the_frame_is_refused(counts: list[dict[str, int]]) -> None:
    left = [Reply(usage=usage) for usage in counts]
    with pytest.raises(KeyelabError, match="without a frame and of one with"):
        measured(FRAME, PICKS, VideoTest(), 100, lambda body: left.pop(0))


def test_without_a_server_it_is_computed_and_said_to_be() -> None:
    budget = computed(FRAME, PICKS, VideoTest(), None, 32)
    assert budget.frame_tokens == 9 + 2
    assert not budget.measured
    told = {row["fact"]: row["value"] for row in rows(budget, 4, 4)}
    assert told["a frame (tokens, computed)"] == 11
    assert told["frames that fit"] is None
