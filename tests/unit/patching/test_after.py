"""Post-conditions: looked up over globs, unknown without a file, silent where not needed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from keyelab.checks import Check
from keyelab.patching.after import post_conditions
from keyelab.patching.rule import Rule


def checks(tree: Path, after: dict[str, Any], **more: Any) -> list[Check]:
    rule = {
        "id": "one",
        "title": "One",
        "why": {"symptom": "", "cause": "", "evidence": ""},
        "applies_to": ["a.cu"],
        "edits": [],
        "after": [{"name": "it holds", **after}],
        **more,
    }
    return list(post_conditions(tree, [Rule.model_validate(rule)]))


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "sub").mkdir()
    (tmp_path / "a.cu").write_bytes(b"one\r\ntwo\r\n")
    (tmp_path / "sub" / "b.cu").write_bytes(b"\xff one\n  <1024>\n")
    return tmp_path


@pytest.mark.parametrize(
    ("after", "status", "found"),
    [
        ({"file": "a.cu", "absent": "three"}, "ok", "holds"),
        ({"file": "a.cu", "absent": "one\ntwo"}, "failed", "a.cu:1 one two"),
        ({"file": "**/*.cu", "absent": "<1024>"}, "failed", "b.cu:2 <1024>"),
        ({"file": "**/*.cu", "present": "<1024>"}, "ok", "holds"),
        ({"file": "**/*", "present": "<512>"}, "failed", "nowhere '<512>'"),
        ({"file": "c.cu", "absent": "x"}, "unknown", "no such file"),
        ({"file": "*.h", "present": "x"}, "unknown", "no such file"),
    ],
)
def test_a_condition_is_looked_up_in_every_file_of_its_glob(
    tree: Path, after: dict[str, Any], status: str, found: str
) -> None:
    (check,) = checks(tree, after)
    assert (check.name, check.status, check.found) == ("one: it holds", status, found)


def test_where_a_rule_or_a_condition_does_not_apply_there_is_no_check(tree: Path) -> None:
    gone = {"file": "c.cu", "present": "x", "otherwise": "no such kernel"}
    assert checks(tree, {"file": "a.cu", "absent": "one"}, still_needed=gone) == []
    other = {"file": "sub/b.cu", "absent": "<1024>"}
    assert checks(tree, {"file": "a.cu", "absent": "one", "when": other}) == []
    assert (
        len(checks(tree, {"file": "a.cu", "absent": "one", "when": {**other, "absent": "no"}})) == 1
    )
