"""A shared copy's value equals whatever its alias may stand for, and nothing else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyelab.record.comparison.alias import alike

WORDS, HIDDEN = st.text("xy ./:", max_size=4), st.text("xyz1. ", min_size=1)
ALIASES = ["host-a", "user-b", "/path-a", "[secret-c]", "ip-ab"]


@given(
    st.lists(st.tuples(WORDS, st.sampled_from(ALIASES), HIDDEN), max_size=4),
    st.text("xy .", max_size=4),
)
def test_a_copy_is_like_its_original(parts: list[tuple[str, str, str]], end: str) -> None:
    copied = "".join(f"{before} {alias} " for before, alias, _ in parts) + end
    original = "".join(f"{before} {hidden} " for before, _, hidden in parts) + end
    assert alike(copied, original)
    assert alike(original, copied)
    assert alike({"a": [copied, 1]}, {"a": [original, 1]})
    assert not alike(copied, f"{original}q")


@pytest.mark.parametrize(
    ("a", "b"),
    [("host-a runs", "gpu7 stops"), ("host-a", 3), (["host-a"], []), ({"x": "host-a"}, {"y": "g"}),
     ("x host-a x", "x"), ("plain", "other")],
)  # fmt: skip
def test_what_is_not_hidden_must_be_equal(a: object, b: object) -> None:
    assert not alike(a, b)


def test_two_copies_may_name_the_same_host_differently() -> None:
    assert alike("https://host-a/x", "https://host-b/x")
