"""The recipe on the real tree of b10019, and what the article's literal edits leave behind."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from keyelab.checks import Check
from keyelab.files import sha256_tree
from keyelab.patching.after import post_conditions
from keyelab.patching.apply import apply_plan, digest_checks
from keyelab.patching.mailbox import mailbox
from keyelab.patching.plan import DoesNotFit, make_plan
from keyelab.patching.recipe import load_recipe
from keyelab.patching.verify import KERNELS, verify

pytestmark = pytest.mark.source
SERIES = load_recipe("article")
# the tree of which patches/README.md tells what was measured: another digest voids that text
MEASURED = "f0b338198eadee46a0427cd2ca8262faf2f7e79c274edcc1e5a9dbecd12729fe"
PLACES = {
    "hip-version-gate": 1,
    "mmf-off": 1,
    "norm-256": 9,
    "rms-norm-256": 9,
    "rms-norm-mul-rope-256": 0,
    "rms-norm-back-256": 6,
    "softmax-256": 3,
    "softmax-no-cooperative-groups": 7,
    "reduce-rows-256": 4,
    "argmax-256": 1,
    "argsort-256": 4,
    "add-id-256": 1,
    "solve-tri-256": 1,
}


def kernels(source: Path, folder: Path) -> Path:
    """A small copy of the tree: the folders that the recipe touches."""
    for name in ("ggml-cuda", "ggml-hip"):
        shutil.copytree(source / "ggml" / "src" / name, folder / "ggml" / "src" / name)
    return folder


def literally(tree: Path) -> Path:
    """The article's edits as it prints them."""
    edits = {
        "norm.cu": [
            ("ncols < 1024", "ncols < 256"),
            ("block_dims(1024, 1, 1)", "block_dims(256, 1, 1)"),
            ("norm_f32<1024>", "norm_f32<256>"),
            ("rms_norm_back_f32<1024>", "rms_norm_back_f32<256>"),
            ("group_size < 1024", "group_size < 256"),
            ("block_size == 1024", "block_size == 256"),
        ],
        "softmax.cuh": [("CUDA_SOFT_MAX_BLOCK_SIZE 1024", "CUDA_SOFT_MAX_BLOCK_SIZE 256")],
        "softmax.cu": [("BLOCK_SIZE == 1024", "BLOCK_SIZE == 256")],
        "mean.cu": [("block_dims(512,", "block_dims(256,")],
        "sumrows.cu": [("block_dims(512,", "block_dims(256,")],
    }
    for name, pairs in edits.items():
        path = tree / KERNELS / name
        text = path.read_text(encoding="utf-8")
        for old, new in pairs:
            assert old in text, (name, old)
            text = text.replace(old, new)
        path.write_text(text, encoding="utf-8")
    return tree


def by_name(checks: list[Check]) -> dict[str, Check]:
    return {check.name: check for check in checks}


def test_every_rule_finds_exactly_its_places(llama_source: Path) -> None:
    plan = make_plan(llama_source, SERIES.rules).require()
    assert {o.rule.id: len(o.places) for o in plan.outcomes} == PLACES
    idle = [(o.rule.id, o.state, o.reason) for o in plan.outcomes if o.state != "to apply"]
    reason = "this tree has no kernel that fuses RMS_NORM with ROPE"
    assert idle == [("rms-norm-mul-rope-256", "not needed", reason)]
    assert plan.tree_sha256() == MEASURED


def test_the_patched_tree_passes_every_check_and_reverts_byte_identically(
    llama_source: Path, tmp_path: Path
) -> None:
    base = kernels(llama_source, tmp_path / "base")
    digest = sha256_tree(base)
    plan = make_plan(base, SERIES.rules)
    applied = apply_plan(plan, tmp_path)
    failed = [c for c in verify(applied.tree, SERIES.rules, 256) if c.status != "ok"]
    assert failed == []
    again = make_plan(applied.tree, SERIES.rules)
    assert {o.state for o in again.outcomes} == {"applied", "not needed"}
    assert again.by_hand == ()
    assert {check.status for check in digest_checks(plan, applied, digest)} == {"ok"}


def test_the_pristine_tree_fails_where_the_recipe_is_needed(llama_source: Path) -> None:
    checks = by_name(verify(llama_source, SERIES.rules, 256))
    assert checks["launches of at most 256 threads"].status == "failed"
    assert checks["kernels agree with their launches"].status == "ok"


def test_the_articles_literal_edits_are_caught(llama_source: Path, tmp_path: Path) -> None:
    tree = literally(kernels(llama_source, tmp_path))
    checks = by_name(verify(tree, SERIES.rules, 256))
    apart = checks["kernels agree with their launches"]
    assert apart.status == "failed"
    assert apart.found.split("; ") == [
        "norm.cu:319 rms_norm_f32<1024, false> starts 256, compiled for 1,024",
        "norm.cu:374 rms_norm_f32<1024, true> starts 256, compiled for 1,024",
        "norm.cu:401 rms_norm_f32<1024, true, true> starts 256, compiled for 1,024",
        "norm.cu:416 rms_norm_back_f32<256> reads 32 partial sums, 8 are written",
        "softmax.cu:285 soft_max_f32<true, ncols, block> starts 256, compiled for 1,024",
    ]
    missed = checks["launches of at most 256 threads"]
    assert missed.status == "failed"
    kernels_missed = {row.split()[1].partition("<")[0] for row in missed.found.split("; ")}
    assert kernels_missed == {
        "argmax_f32",
        "k_argsort_f32_i32",
        "add_id_kernel",
        "solve_tri_f32_fast",
    }
    cap = checks["softmax-256: the compiled block is capped by the started one"]
    assert cap.status == "failed"
    assert "softmax.cu:281" in cap.found
    assert checks["rms-norm-back-256: unwritten sums are not read"].status == "failed"
    for missed in ("argmax-256", "argsort-256", "add-id-256", "solve-tri-256"):
        assert any(c.status == "failed" for n, c in checks.items() if n.startswith(missed))


def test_a_tree_edited_with_the_articles_lines_is_stopped_and_stays_as_it_is(
    llama_source: Path, tmp_path: Path
) -> None:
    tree = literally(kernels(llama_source, tmp_path))
    before = sha256_tree(tree)
    with pytest.raises(DoesNotFit) as caught:
        make_plan(tree, SERIES.rules).require()
    assert caught.value.message == (
        "the article's edits are in norm.cu: 256 threads for rms_norm_f32<1024, …>; "
        "norm.cu: rms_norm_back_f32 for 256 threads that reads 32 sums; "
        "softmax.cu: soft_max_f32 compiled for 1024 threads and started with 256; "
        "nothing was changed"
    )
    assert caught.value.hint.startswith("start from a pristine tree")
    assert sha256_tree(tree) == before


def test_another_recipe_stops_on_such_a_tree_too(llama_source: Path, tmp_path: Path) -> None:
    tree = literally(kernels(llama_source, tmp_path))
    with pytest.raises(DoesNotFit, match="the article's edits are in"):
        make_plan(tree, load_recipe("gcn").rules).require()


def test_crlf_line_ends_of_a_whole_tree_are_kept(llama_source: Path, tmp_path: Path) -> None:
    tree = kernels(llama_source, tmp_path / "lf")
    planned = make_plan(tree, SERIES.rules).require().after
    for path in [path for path in tree.rglob("*") if path.is_file()]:
        path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    plan = make_plan(tree, SERIES.rules).require()
    assert plan.after == {f: content.replace(b"\n", b"\r\n") for f, content in planned.items()}
    applied = apply_plan(plan, tmp_path)
    assert {check.status for check in post_conditions(applied.tree, SERIES.rules)} == {"ok"}


def test_git_am_makes_one_commit_a_rule_and_the_planned_tree(
    llama_source: Path, tmp_path: Path
) -> None:
    tree = kernels(llama_source, tmp_path / "tree")
    plan = make_plan(tree, SERIES.rules)
    planned = plan.tree_sha256()
    mails = mailbox(plan)
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "GIT_CONFIG_NOSYSTEM": "1"}
    env |= {f"GIT_COMMITTER_{what}": "nobody" for what in ("NAME", "EMAIL")}
    env |= {f"GIT_AUTHOR_{what}": "nobody" for what in ("NAME", "EMAIL")}

    def git(*words: str, mails: str = "") -> str:
        done = subprocess.run(
            ["git", *words], cwd=tree, env=env, input=mails.encode(), check=True, timeout=60,
            capture_output=True,
        )  # fmt: skip
        return done.stdout.decode()

    git("init", "--quiet")
    git("add", "--all")
    git("commit", "--quiet", "--message", "base")
    git("am", "--quiet", mails=mails)
    assert sha256_tree(tree) == planned
    log = git("log", "--reverse", "--format=%an <%ae> %s", "HEAD~12..").splitlines()
    author = "keyelab <keyelab@localhost>"
    assert log == [
        f"{author} {o.rule.id}: {o.rule.title}" for o in plan.outcomes if o.state == "to apply"
    ]
    body = git("log", "-1", "--format=%b")
    assert body.startswith("Symptom: Launch params (32, 32, 1)")
    assert "\nCause: " in body
    assert "\nEvidence: " in body


def test_the_diffs_apply_with_git_in_their_order(llama_source: Path, tmp_path: Path) -> None:
    tree = kernels(llama_source, tmp_path)
    plan = make_plan(tree, SERIES.rules)
    for outcome in [outcome for outcome in plan.outcomes if outcome.diff]:
        subprocess.run(
            ["git", "apply", "-"], cwd=tree, input=outcome.diff.encode(), check=True, timeout=30
        )
    for file, content in plan.after.items():
        assert (tree / file).read_bytes() == content
