"""Expressions and conditional lines, on snippets of our own."""

from __future__ import annotations

import pytest

from keyelab.patching.cuda.interpreter import Interpreter
from keyelab.patching.cuda.sources import Macros
from keyelab.patching.cuda.syntax import Unreadable, expression
from keyelab.patching.cuda.values import Symbol


def active(text: str, *definitions: str) -> list[str]:
    """The lines that stay, without blank ones."""
    lines = Macros(definitions).active(text, lambda name: None).split("\n")
    assert len(lines) == text.count("\n") + 1, "each line stays in its place"
    return [line.strip() for line in lines if line.strip()]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0x10 + 2 * 3", 22),
        ("(7 / 2) % 2 == 1", True),
        ("1 << 4 | 1", 17),
        ("3 > 2 ? 5 : 6", 5),
        ("!(1 < 2) || 4 != 4", False),
        ("0 && missing()", False),
        ("1.5f * 2", 3.0),
    ],
)
def test_an_expression_has_the_value_that_c_gives_it(text: str, value: object) -> None:
    assert Interpreter({}).value(expression(text), {}) == value


def test_a_macro_with_parameters_takes_values() -> None:
    macros = Macros(())
    text = "#define BASE 0x100\n#define NEAR(x) (x > BASE && \\\n x < BASE + 8)"
    assert macros.active(text, print) == "\n\n"
    assert macros.holds("NEAR(0x104)")
    assert not macros.holds("NEAR(0x108)")


CHAIN = """
#if defined(__old__) || defined __older__ // a comment
#define FAMILY 1
first
#elif VERSION >= 300 /* one
more */ && !defined(OFF)
#define FAMILY 2
second
#else
third
#endif
#ifdef FAMILY
#if FAMILY == 2
nested
#endif
#else
none
#endif
"""


@pytest.mark.parametrize(
    ("definitions", "lines"),
    [
        (["__older__"], ["first"]),
        (["VERSION=300"], ["second", "nested"]),
        (["VERSION=300", "OFF"], ["third", "none"]),
        (["__old__", "VERSION=300"], ["first"]),
        ([], ["third", "none"]),
    ],
)
def test_exactly_one_branch_of_a_chain_is_active(definitions: list[str], lines: list[str]) -> None:
    assert active(CHAIN, *definitions) == lines


def test_nothing_in_an_inactive_branch_is_defined_or_included() -> None:
    asked: list[str] = []
    macros = Macros(())
    text = (
        '#if 0\n#include "a.h"\n#if UNREADABLE(\n#endif\n#define A\n#elif 1\n#include "b.h"\n#endif'
    )
    assert macros.active(text, asked.append).split() == []
    assert asked == ["b.h"]
    assert "A" not in macros.table


def test_a_removed_macro_is_gone() -> None:
    assert active("#define A\n#undef A\n#ifndef A\nhere\n#endif") == ["here"]


def test_a_comment_sign_in_a_string_is_no_comment() -> None:
    assert active('f("a // b"); // c') == ['f("a // b");']


@pytest.mark.parametrize("condition", ["1 +", "unknown(3)", "#", "defined(A) &&"])
def test_a_condition_that_is_not_understood_is_not_guessed(condition: str) -> None:
    with pytest.raises(Unreadable):
        Macros(()).holds(condition)
    assert Macros((), unsure=True).holds(condition)


def test_a_name_without_a_value_is_neither_true_nor_comparable_with_a_number() -> None:
    read = Interpreter({})
    names = {"a": Symbol("KIND_A"), "b": Symbol("KIND_B")}
    assert read.value(expression("a == a && a != b"), names) is True
    for text in ("a == 1", "a < b", "a && 1", "a + 1"):
        with pytest.raises(Unreadable):
            read.value(expression(text), names)
