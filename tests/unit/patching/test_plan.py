"""Plans: states, counts, nothing written, and a diff that other tools read."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from keyelab.files import sha256_tree
from keyelab.patching.plan import DoesNotFit, make_plan
from keyelab.patching.recipe import load_recipe
from keyelab.patching.rule import Rule

DATA = Path(__file__).parents[2] / "data" / "patching"
GATE = "ggml/src/ggml-hip/CMakeLists.txt"


def gate_rule() -> Rule:
    return next(r for r in load_recipe("article").rules if r.id == "hip-version-gate")


def rule(id: str, file: str, **more: Any) -> Rule:
    return Rule.model_validate(
        {
            "id": id,
            "title": id,
            "why": {"symptom": "", "cause": "", "evidence": ""},
            "applies_to": [file],
            **more,
        }
    )


def gate_tree(folder: Path, name: str, line_end: str = "\n") -> Path:
    path = folder / GATE
    path.parent.mkdir(parents=True)
    text = (DATA / name).read_text(encoding="utf-8")
    path.write_bytes(text.replace("\n", line_end).encode())
    return folder


def test_the_gate_is_patched_once(tmp_path: Path) -> None:
    plan = make_plan(gate_tree(tmp_path, "gate.txt"), [gate_rule()]).require()
    assert plan.outcomes[0].state == "to apply"
    assert plan.after[GATE] == (DATA / "gate_patched.txt").read_bytes()


def test_a_patched_gate_is_recognised_and_left_alone(tmp_path: Path) -> None:
    plan = make_plan(gate_tree(tmp_path, "gate_patched.txt"), [gate_rule()]).require()
    assert plan.outcomes[0].state == "applied"
    assert plan.after == {}
    assert plan.outcomes[0].diff == ""


def test_crlf_is_kept(tmp_path: Path) -> None:
    plan = make_plan(gate_tree(tmp_path, "gate.txt", "\r\n"), [gate_rule()]).require()
    expected = (DATA / "gate_patched.txt").read_bytes().replace(b"\n", b"\r\n")
    assert plan.after[GATE] == expected


def test_a_moved_gate_stops_the_whole_series_and_names_rule_file_counts_and_nearest_line(
    tmp_path: Path,
) -> None:
    tree = gate_tree(tmp_path, "gate_moved.txt")
    (tree / "other.txt").write_text("old\n", encoding="utf-8")
    other = rule("other", "other.txt", edits=[{"find": "old", "replace": "new"}])
    before = sha256_tree(tree)
    plan = make_plan(tree, [other, gate_rule()])
    assert [o.state for o in plan.outcomes] == ["to apply", "not applicable"]
    with pytest.raises(DoesNotFit) as caught:
        plan.require()
    message = caught.value.message
    assert "rule hip-version-gate" in message
    assert GATE in message
    assert "expected 1 place, found 0" in message
    assert "line 3: if (hip_VERSION VERSION_LESS LEAST_HIP)" in message
    assert "nothing was changed" in message
    assert sha256_tree(tree) == before


def test_too_many_places_do_not_fit(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("old\n\nold\n", encoding="utf-8")
    one = rule("one", "a.txt", edits=[{"find": "old", "replace": "new"}])
    with pytest.raises(DoesNotFit, match=r"expected 1 place, found 2: lines 1, 3"):
        make_plan(tmp_path, [one]).require()


def test_a_half_patched_file_is_named_as_edited_by_hand(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("new\nred\n", encoding="utf-8")
    edits = [{"find": "old", "replace": "new"}, {"find": "red", "replace": "blue"}]
    with pytest.raises(DoesNotFit, match="edited by hand"):
        make_plan(tmp_path, [rule("one", "a.txt", edits=edits)]).require()


def test_a_missing_file_does_not_fit(tmp_path: Path) -> None:
    with pytest.raises(DoesNotFit, match=r"expected the file ggml/.*CMakeLists\.txt"):
        make_plan(tmp_path, [gate_rule()]).require()


def test_a_file_that_is_not_utf8_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"old \xff\n")
    one = rule("one", "a.txt", edits=[{"find": "old", "replace": "new"}])
    with pytest.raises(DoesNotFit, match=r"a\.txt, found byte 0xff at 4"):
        make_plan(tmp_path, [one]).require()


@pytest.mark.parametrize("target", ["inside.txt", "../outside.txt"])
def test_a_file_that_is_a_link_is_refused(tmp_path: Path, target: str) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / target).write_text("old\n", encoding="utf-8")
    (tree / "a.txt").symlink_to(target)
    one = rule("one", "a.txt", edits=[{"find": "old", "replace": "new"}])
    with pytest.raises(
        DoesNotFit, match=r"expected a plain file at a\.txt, found a link"
    ) as caught:
        make_plan(tree, [one]).require()
    assert ("outside the tree" in caught.value.message) == target.startswith("..")


def test_a_folder_that_is_a_link_out_of_the_tree_is_refused(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "a.txt").write_text("old\n", encoding="utf-8")
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "sub").symlink_to(tmp_path / "elsewhere")
    one = rule("one", "sub/a.txt", edits=[{"find": "old", "replace": "new"}])
    with pytest.raises(DoesNotFit, match="outside the tree"):
        make_plan(tmp_path / "tree", [one]).require()


def test_a_tree_that_is_reached_through_a_link_is_read(tmp_path: Path) -> None:
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "a.txt").write_text("old\n", encoding="utf-8")
    (tmp_path / "link").symlink_to("tree")
    one = rule("one", "a.txt", edits=[{"find": "old", "replace": "new"}])
    assert make_plan(tmp_path / "link", [one]).require().after == {"a.txt": b"new\n"}


def test_a_read_only_file_is_planned(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("old\n", encoding="utf-8")
    (tmp_path / "a.txt").chmod(0o444)
    one = rule("one", "a.txt", edits=[{"find": "old", "replace": "new"}])
    assert make_plan(tmp_path, [one]).require().after == {"a.txt": b"new\n"}


def test_an_edit_is_left_out_where_its_condition_does_not_hold(tmp_path: Path) -> None:
    edits = [
        {"find": "two", "replace": "2", "when": {"file": "new.txt", "present": "second form"}},
        {"find": "one", "replace": "1", "when": {"file": "new.txt", "absent": "second form"}},
    ]
    one = rule("one", "a.txt", edits=edits)
    (tmp_path / "a.txt").write_text("one two\n", encoding="utf-8")
    assert make_plan(tmp_path, [one]).require().after == {"a.txt": b"1 two\n"}
    (tmp_path / "new.txt").write_text("the\r\nsecond form\r\n", encoding="utf-8")
    assert make_plan(tmp_path, [one]).require().after == {"a.txt": b"one 2\n"}


def test_a_rule_that_upstream_made_unnecessary_says_so_though_its_file_is_gone(
    tmp_path: Path,
) -> None:
    needed = {"file": "gone.txt", "present": "old", "otherwise": "upstream removed it"}
    one = rule("one", "gone.txt", edits=[{"find": "old", "replace": "new"}], still_needed=needed)
    outcome = make_plan(tmp_path, [one]).require().outcomes[0]
    assert (outcome.state, outcome.reason) == ("not needed", "upstream removed it")
    assert outcome.row()["where"] == "upstream removed it"


def test_edits_that_leave_a_promise_unmet_stop_the_series(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("old\n", encoding="utf-8")
    (tmp_path / "b.txt").write_text("x\nold form\n", encoding="utf-8")
    promise = {"name": "nothing old", "file": "*.txt", "absent": "old.*"}
    one = rule("one", "a.txt", edits=[{"find": "old", "replace": "new"}], after=[promise])
    two = rule("two", "a.txt", edits=[{"find": "old", "replace": "new"}])
    plan = make_plan(tmp_path, [one, two])
    assert plan.outcomes[0].problem == (
        "its edits would leave unmet 'nothing old': b.txt:2 old form"
    )
    assert plan.outcomes[1].state == "to apply", "the first left nothing behind"
    (tmp_path / "b.txt").unlink()
    assert make_plan(tmp_path, [one]).require().after == {"a.txt": b"new\n"}


def test_an_edit_that_may_find_nothing_is_not_needed(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("x\n", encoding="utf-8")
    edit = {"find": "old", "replace": "new", "expect": {"min": 0, "max": 2}}
    plan = make_plan(tmp_path, [rule("one", "a.txt", edits=[edit])]).require()
    assert plan.outcomes[0].state == "not needed"


def test_rules_on_one_file_see_what_the_ones_before_leave(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n", encoding="utf-8")
    first = rule("first", "a.txt", edits=[{"find": "one", "replace": "two"}])
    second = rule("second", "a.txt", edits=[{"find": "two", "replace": "three"}])
    plan = make_plan(tmp_path, [first, second]).require()
    assert plan.after == {"a.txt": b"three\n"}
    assert "-one\n+two\n" in plan.outcomes[0].diff
    assert "-two\n+three\n" in plan.outcomes[1].diff


@pytest.mark.parametrize("text", ["a\nold\nb\n", "a\r\nold\r\n", "old", "\x0cold\n\x0b\n"])
def test_git_applies_the_diff_to_the_same_bytes(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.txt").write_bytes(text.encode())
    edit = {"find": "old", "replace": "new\nline"}
    plan = make_plan(tmp_path, [rule("one", "a.txt", edits=[edit])]).require()
    subprocess.run(
        ["git", "apply", "--whitespace=nowarn", "-"],
        cwd=tmp_path, input=plan.outcomes[0].diff.encode(), check=True, timeout=30,
        env={"PATH": "/usr/bin:/bin", "GIT_CEILING_DIRECTORIES": str(tmp_path.parent)},
    )  # fmt: skip
    assert (tmp_path / "a.txt").read_bytes() == plan.after["a.txt"]
