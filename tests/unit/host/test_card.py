"""A transcript of the probe, read: what was seen, and what stays unknown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from keyelab.host.card import Card, read
from keyelab.host.checks import probe_check

DATA = Path(__file__).parents[2] / "data" / "host"
RUNS = ("runs_1024_plain", "runs_1024_bound", "runs_1024_flag", "runs_512_bound")


def constructed(name: str) -> str:
    return (DATA / f"probe_{name}.txt").read_text(encoding="utf-8")


def launches(card: Card) -> dict[str, bool | None]:
    return {name: getattr(card.facts, name) for name in (*RUNS, "dot")}


def changed(text: str, trial: str, old: str, new: str) -> str:
    """The transcript with one trial's lines changed."""
    head, begin, rest = text.partition(f'{{"trial": "{trial}"')
    body, end, tail = rest.partition('{"trial": ')
    assert old in body
    return head + begin + body.replace(old, new) + end + tail


def test_a_k100_ai_takes_1024_threads_but_not_without_a_bound() -> None:
    card = read(constructed("k100ai"))
    assert launches(card) == {
        "runs_1024_plain": False,
        "runs_1024_bound": True,
        "runs_1024_flag": True,
        "runs_512_bound": True,
        "dot": True,
    }
    assert card.facts.arch == "gfx928"
    assert (card.facts.max_block_threads, card.facts.default_bound_threads) == (1024, 256)
    assert (card.facts.wavefront_lanes, card.facts.shared_block_bytes) == (64, 65536)
    assert card.reasons["runs_1024_plain"].endswith("larger than launch bounds (256)")
    assert card.unknown == []


def test_the_compilers_own_macros_are_kept_and_no_others() -> None:
    macros = read(constructed("k100ai")).facts.macros
    assert {"__gfx928__ 1", "__GFX9__ 1", "__AMDGCN_WAVEFRONT_SIZE 64"} <= set(macros)
    assert not [macro for macro in macros if "SIZEOF" in macro or "LP64" in macro]


def test_a_card_that_takes_only_256_threads_runs_none_of_the_wide_blocks() -> None:
    card = read(constructed("only_256"))
    assert launches(card) == dict.fromkeys((*RUNS, "dot"), False)
    assert card.facts.max_block_threads == 256
    assert card.unknown == []


def test_one_wrong_slot_of_a_dot_product_is_a_wrong_dot_product() -> None:
    assert "dot2: 2,559 of 2,560 slots right" in read(constructed("only_256")).reasons["dot"]


def test_without_a_card_everything_about_it_is_unknown() -> None:
    card = read(constructed("no_device"))
    assert launches(card) == dict.fromkeys((*RUNS, "dot"))
    assert card.facts.arch is None
    said = {why for fact, why in card.reasons.items() if fact != "gfx9"}
    assert said == {"hipGetDeviceCount: hipErrorNoDevice"}
    assert "__gfx928__ 1" in card.facts.macros, "the compiler was there"


def test_half_a_transcript_keeps_what_was_seen_and_guesses_nothing() -> None:
    card = read(constructed("half"))
    assert card.facts.runs_512_bound is True
    assert card.unknown == ["runs_1024_plain", "runs_1024_bound", "runs_1024_flag", "dot"]
    assert card.reasons["runs_1024_bound"] == "the transcript breaks off here"


@pytest.mark.parametrize("text", ["", "garbage\n", '{"trial": "contr', "{}\n[]\n"])
def test_no_transcript_at_all_is_all_unknown(text: str) -> None:
    assert launches(read(text)) == dict.fromkeys((*RUNS, "dot"))


def test_every_prefix_of_a_transcript_can_be_read_and_claims_no_more_than_the_whole() -> None:
    text = constructed("k100ai")
    whole = launches(read(text))
    for length in range(0, len(text), 97):
        part = launches(read(text[:length]))
        assert all(value in (None, whole[name]) for name, value in part.items()), length


RAN = '"status": "hipSuccess", "right": 122880'
ENDED = '{"end": "ran"}'


@pytest.mark.parametrize(
    ("old", "new", "value", "reason"),
    [
        (RAN, '"status": "hipSuccess", "right": 32640', False, "32,640 of 122,880 slots right"),
        (RAN, '"status": "hipErrorLaunchFailure", "right": 0', False, "hipErrorLaunchFailure; 0"),
        (RAN, '"status": "hipErrorOutOfMemory", "right": 0', None, "hipErrorOutOfMemory"),
        (
            ENDED,
            '{"end": "not built: failed", "says": "unknown argument"}',
            False,
            "unknown argument",
        ),
        (
            ENDED,
            '{"end": "not built: timed out", "says": "still running"}',
            None,
            "still running",
        ),
        ('"launch_threads": 1024', '"error": "hipMalloc: hipErrorOutOfMemory"', None, "hipMalloc"),
        (
            '"arch": "gfx928:sramecc+:xnack-"',
            '"arch": "gfx906"',
            None,
            "the card is gfx906, compiled for gfx928",
        ),
    ],
)
def test_a_launch_is_false_where_it_failed_and_unknown_where_something_else_did(
    old: str, new: str, value: bool | None, reason: str
) -> None:
    card = read(changed(constructed("k100ai"), "flag-1024", old, new))
    assert card.facts.runs_1024_flag is value
    assert reason in card.reasons["runs_1024_flag"]
    assert card.facts.runs_1024_bound is True, "the other trials stand"


@pytest.mark.parametrize(
    ("end", "value"),
    [("not ran: timed out", False), ("not ran: failed", False), ("not ran: not started", False)],
)
def test_a_launch_without_a_result_did_not_run(end: str, value: Any) -> None:
    text = constructed("k100ai")
    slots = '{"status": "hipSuccess", "right": 122880, "slots": 122880}'
    text = changed(text, "flag-1024", slots, "")
    text = changed(text, "flag-1024", ENDED, f'{{"end": "{end}", "says": "why"}}')
    card = read(text)
    assert (card.facts.runs_1024_flag, card.reasons["runs_1024_flag"]) == (value, "why")


def test_a_line_of_the_runtime_makes_a_launch_wrong_although_every_slot_is_right() -> None:
    line = "Launch params (1024, 1, 1) are larger than launch bounds (512) for kernel work"
    text = changed(constructed("k100ai"), "flag-1024", '{"status"', f'{line}\n{{"status"')
    assert read(text).facts.runs_1024_flag is False


def test_a_control_launch_that_fails_leaves_nothing_to_conclude() -> None:
    text = changed(constructed("k100ai"), "control", '"right": 7680', '"right": 7000')
    card = read(text)
    assert launches(card) == dict.fromkeys((*RUNS, "dot"))
    assert card.reasons["dot"] == "7,000 of 7,680 slots right"


def test_the_check_is_unknown_with_the_reason_while_anything_is() -> None:
    assert probe_check(read(constructed("k100ai"))).status == "ok"
    verdict = probe_check(read(constructed("no_device")))
    assert (verdict.status, verdict.found) == ("unknown", "hipGetDeviceCount: hipErrorNoDevice")
    assert "keyelab probe" in verdict.remedy
