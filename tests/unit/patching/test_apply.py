"""Applying and taking back: whole or not at all, proven by digest."""

from __future__ import annotations

from pathlib import Path

import pytest

from keyelab.errors import KeyelabError
from keyelab.files import sha256_tree
from keyelab.patching import apply
from keyelab.patching.apply import apply_plan, digest_checks
from keyelab.patching.plan import DoesNotFit, Plan, make_plan
from keyelab.patching.rule import Rule


def series(*files: str) -> list[Rule]:
    return [
        Rule.model_validate(
            {
                "id": f"rule-{number}",
                "title": "t",
                "why": {"symptom": "", "cause": "", "evidence": ""},
                "applies_to": [file],
                "edits": [{"find": "old", "replace": "new"}],
            }
        )
        for number, file in enumerate(files)
    ]


@pytest.fixture
def base(tmp_path: Path) -> Path:
    tree = tmp_path / "sources" / "base"
    (tree / "sub").mkdir(parents=True)
    (tree / "a.txt").write_text("old a\n", encoding="utf-8")
    (tree / "sub" / "run.sh").write_bytes(b"old b\r\n")
    (tree / "sub" / "run.sh").chmod(0o555)
    (tree / "link").symlink_to("a.txt")
    return tree


def planned(base: Path) -> Plan:
    return make_plan(base, series("a.txt", "sub/run.sh"))


def test_the_copy_has_the_planned_digest_and_the_base_is_untouched(base: Path) -> None:
    before = sha256_tree(base)
    plan = planned(base)
    applied = apply_plan(plan, base.parent)
    assert applied.sha256 == plan.tree_sha256() == sha256_tree(applied.tree)
    assert not applied.already
    assert sha256_tree(base) == before
    assert applied.tree == base.parent / applied.sha256[:12]
    assert (applied.tree / "sub" / "run.sh").read_bytes() == b"new b\r\n"
    assert (applied.tree / "sub" / "run.sh").stat().st_mode & 0o100
    assert (applied.tree / "link").is_symlink()


def test_applying_twice_does_nothing_and_says_so(base: Path) -> None:
    first = apply_plan(planned(base), base.parent)
    for tree in (base, first.tree):  # a tree that has the edits is its own result
        again = apply_plan(planned(tree), base.parent)
        assert again.already
        assert (again.tree, again.sha256) == (first.tree, first.sha256)


def test_a_failure_while_writing_leaves_nothing(
    base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_room(path: Path, content: bytes) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(apply, "_write", no_room)
    with pytest.raises(OSError, match="no space"):
        apply_plan(planned(base), base.parent)
    assert list(base.parent.iterdir()) == [base]


def test_a_rule_that_does_not_fit_leaves_nothing(base: Path) -> None:
    before = sha256_tree(base)
    plan = make_plan(base, series("a.txt", "absent.txt"))
    with pytest.raises(DoesNotFit):
        apply_plan(plan, base.parent)
    assert list(base.parent.iterdir()) == [base]
    assert sha256_tree(base) == before


def test_a_copy_that_was_edited_by_hand_is_refused_and_kept(base: Path) -> None:
    applied = apply_plan(planned(base), base.parent)
    (applied.tree / "mine.txt").write_text("notes", encoding="utf-8")
    with pytest.raises(KeyelabError, match="it was edited") as caught:
        apply_plan(planned(base), base.parent)
    assert "rm -r" in caught.value.hint
    assert (applied.tree / "mine.txt").exists()


def test_the_way_back_is_byte_identical(base: Path) -> None:
    digest = sha256_tree(base)
    plan = planned(base)
    applied = apply_plan(plan, base.parent)
    assert {check.status for check in digest_checks(plan, applied, digest)} == {"ok"}
    assert sha256_tree(applied.tree) == applied.sha256, "nothing was written to see that"


def test_the_checks_tell_when_files_were_edited_meanwhile(base: Path) -> None:
    digest = sha256_tree(base)
    plan = planned(base)
    applied = apply_plan(plan, base.parent)

    def failed() -> list[str]:
        return [c.name for c in digest_checks(plan, applied, digest) if c.status == "failed"]

    (applied.tree / "mine.txt").write_text("notes", encoding="utf-8")
    assert failed() == ["revert is byte-identical"]
    (base / "mine.txt").write_text("notes", encoding="utf-8")
    assert failed() == ["original is untouched", "revert is byte-identical"]
