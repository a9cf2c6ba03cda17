"""One edit on one text."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from keyelab.patching.edit import attempt, nearest
from keyelab.patching.rule import SyntaxEdit, TextEdit

LITERAL = SyntaxEdit.model_validate(
    {
        "rule": {"pattern": "ncols < 1024"},
        "fix": "ncols < 256",
        "expect": 1,
        "done": {"rule": {"pattern": "ncols < 256"}, "expect": 1},
    }
)


def text_edit(find: str, replace: str, within: str = "", expect: int = 1) -> TextEdit:
    return TextEdit.model_validate(
        {"find": find, "replace": replace, "within": within, "expect": expect}
    )


def test_an_edit_that_is_made_is_not_made_again_though_its_text_holds_what_is_sought() -> None:
    edit = text_edit("start\n", "start\nguard\n")
    once = attempt(edit, "start\nend\n")
    assert once.text == "start\nguard\nend\n"
    twice = attempt(edit, once.text)
    assert twice.is_done
    assert twice.lines == ()
    assert twice.text == once.text


def test_line_ends_stay_as_they_are_in_the_file() -> None:
    found = attempt(text_edit("a\nb", "a\nnew\nb"), "x\r\na\r\nb\r\n")
    assert found.text == "x\r\na\r\nnew\r\nb\r\n"
    assert attempt(text_edit("a\nb", "a\nnew\nb"), found.text).is_done


def test_within_looks_only_into_the_named_function() -> None:
    text = "void one() {\n  n = 1;\n}\nvoid two() {\n  n = 1;\n}\n"
    found = attempt(text_edit("n = 1;", "n = 2;", within="void two()"), text)
    assert found.lines == (5,)
    assert found.text == "void one() {\n  n = 1;\n}\nvoid two() {\n  n = 2;\n}\n"


def test_an_anchor_that_stands_twice_finds_nothing() -> None:
    text = "void one() {\n  n = 1;\n}\n"
    assert attempt(text_edit("n = 1;", "n = 2;", within="void one()"), text + text).lines == ()


def test_a_syntax_edit_changes_code_and_leaves_comments_and_text_beyond_ascii_alone() -> None:
    text = "// n×n, ncols < 1024 列\nvoid f(int ncols) {\r\n    if (ncols  <  1024) { g(); }\r\n}\n"
    found = attempt(LITERAL, text)
    assert found.lines == (3,)
    assert found.text == text.replace("ncols  <  1024", "ncols < 256")
    assert attempt(LITERAL, found.text).is_done


def test_the_nearest_line_is_named_with_its_number() -> None:
    edit = text_edit("if (${v} VERSION_LESS 6.1)", "")
    assert nearest(edit, "a\nif (v VERSION_LESS 6.1)\n") == "line 2: if (v VERSION_LESS 6.1)"
    assert nearest(edit, "nothing like it\n") == ""


def test_up_to_three_near_lines_are_named_and_for_a_syntax_edit_those_with_its_words() -> None:
    text = "ncols <= 1024\nother\nif (ncols > 512) {\n  ncols < LIMIT\n"
    assert nearest(LITERAL, text) == "line 1: ncols <= 1024"
    near = "line 1: if (ncols > 512) {; line 2: ncols < LIMIT"
    assert nearest(LITERAL, "\n".join(text.splitlines()[2:])) == near
    assert nearest(LITERAL, "nothing like it\n") == ""
    assert nearest(text_edit("abcdef", ""), "abcdeg\nabcdeh\nabcdei\nabcdej\n").count("line ") == 3


@given(st.lists(st.sampled_from(["keep\n", "é\r\n", "\tfind;\n", "\x0c\n", "x find;\r\n"])))
def test_nothing_but_the_found_places_changes(lines: list[str]) -> None:
    text = "".join(lines)
    found = attempt(text_edit("find;", "made;", expect=max(1, text.count("find;"))), text)
    assert len(found.lines) == text.count("find;")
    assert found.text.replace("made;", "find;") == text
