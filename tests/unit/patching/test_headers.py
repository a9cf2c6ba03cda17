"""Corrected header copies, and the toolkit left alone."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from keyelab.errors import KeyelabError
from keyelab.files import project_root, sha256_file, sha256_tree
from keyelab.params import HeaderFixes
from keyelab.patching.after import post_conditions
from keyelab.patching.apply import apply_plan
from keyelab.patching.headers import (
    FOLDER,
    Corrected,
    complaint,
    correct,
    has_probe,
    originals,
    plan_headers,
    probe_check,
)
from keyelab.patching.plan import DoesNotFit, Plan
from keyelab.patching.recipe import header_rules

SPECIMEN = project_root() / "patches" / "headers" / "specimen"
CLANG = next((name for name in ("clang-19", "clang") if shutil.which(name)), "")
DEVICE = [CLANG, "-x", "c++", "--target=amdgcn-amd-amdhsa", "-mcpu=gfx906", "-nogpulib"]
INFO = "hip/amd_detail/cooperative_groups/details/info.h"
RULES = header_rules()


def planned(root: Path) -> Plan:
    plan, reason = plan_headers(str(root), RULES)
    assert plan is not None
    assert reason == ""
    return plan


def overlay(plan: Plan, folder: Path) -> Path:
    return apply_plan(plan, folder, FOLDER).tree.parent


def corrected(mode: str, folder: Path) -> tuple[Plan, Corrected]:
    """A copy of the specimen, corrected in one of the two ways."""
    root = folder / "specimen"
    shutil.copytree(SPECIMEN, root)
    params = HeaderFixes(mode=mode, headers_root=str(root), workdir=str(folder / "work"))  # type: ignore[arg-type]
    plan = planned(root)
    return plan, correct(plan, params, folder / "run")


def toolkit(folder: Path, info: str) -> Path:
    """A toolkit whose headers lead to info.h, and back, by quoted includes."""
    details = INFO.removesuffix("info.h")
    headers = {
        INFO: info,
        f"{details}sync.h": '#include "info.h"\n#include "wave.h"\n',
        f"{details}wave.h": "int wave();\n",
        "hip/hip_cooperative_groups.h": f"#include <{details}sync.h>\n",
    }
    for name, text in headers.items():
        path = folder / "include" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder


def test_the_specimen_says_in_its_first_line_that_it_is_one() -> None:
    first = (SPECIMEN / "include" / INFO).read_text(encoding="utf-8").splitlines()[0]
    assert "specimen" in first
    assert "not a vendor file" in first


modes = pytest.mark.parametrize("mode", ["overlay", "in_place"])


@modes
def test_every_branch_and_the_function_are_corrected_and_that_is_proven(
    mode: str, tmp_path: Path
) -> None:
    plan, done = corrected(mode, tmp_path)
    text = (done.include / INFO).read_text(encoding="utf-8")
    assert text.count('_CG_ASM_PTR_CONSTRAINT "r"') == 3
    assert '_CG_ASM_PTR_CONSTRAINT "l"' not in text
    assert "#ifndef __any_sync\nstatic inline int __any_sync(" in text
    checks = [*done.checks, *post_conditions(done.include / FOLDER, RULES)]
    assert {check.status for check in checks} == {"ok"}
    assert (done.backup is None) == (mode == "overlay")
    changed = sha256_tree(plan.tree) != sha256_tree(SPECIMEN / "include" / FOLDER)
    assert changed == (mode == "in_place"), "an overlay leaves the toolkit as it is"


def test_the_originals_are_recorded_by_digest() -> None:
    assert originals(planned(SPECIMEN)) == {INFO: sha256_file(SPECIMEN / "include" / INFO)}


@modes
def test_the_probe_fails_with_the_original_and_compiles_with_ours(
    mode: str, tmp_path: Path
) -> None:
    plan, done = corrected(mode, tmp_path)
    assert has_probe(plan)
    cured = probe_check(plan, done, "c++", tmp_path / "log")
    assert cured.status == "ok"
    assert "redefinition of" in cured.found
    same = Corrected(done.original, done.original, [])
    assert probe_check(plan, same, "c++", tmp_path / "log").status == "failed"


@modes
@pytest.mark.skipif(not CLANG, reason="needs clang with the amdgcn target; none is on PATH")
def test_a_compiler_for_the_card_rejects_both_constructs_and_takes_the_cure(
    mode: str, tmp_path: Path
) -> None:
    _, done = corrected(mode, tmp_path)
    probe = tmp_path / "specimen" / "probe.cpp"
    before = complaint(DEVICE, probe, done.original)
    if "unknown target" in before:
        pytest.skip(f"{CLANG} has no amdgcn target")
    assert "redefinition of '__any'" in before
    assert "invalid input constraint 'l' in asm" in before
    assert complaint(DEVICE, probe, done.include) == ""


def test_one_copied_header_is_not_enough_where_includes_are_quoted(tmp_path: Path) -> None:
    info = (SPECIMEN / "include" / INFO).read_text(encoding="utf-8")
    plan = planned(toolkit(tmp_path / "dtk", info))
    whole, alone = overlay(plan, tmp_path / "work"), tmp_path / "alone"
    (alone / INFO).parent.mkdir(parents=True)
    shutil.copy(whole / INFO, alone / INFO)
    source = tmp_path / "unit.cpp"
    source.write_text(
        "static inline int __any(int p) { return p; }\n#define __any_sync(m, v) __any(v)\n"
        "#include <hip/hip_cooperative_groups.h>\n",
        encoding="utf-8",
    )
    vendor = tmp_path / "dtk" / "include"
    assert "redefinition" in complaint(["c++", "-I", str(alone)], source, vendor)
    assert complaint(["c++", "-I", str(whole)], source, vendor) == ""


def test_headers_that_include_each_other_stay_together(tmp_path: Path) -> None:
    info = (SPECIMEN / "include" / INFO).read_text(encoding="utf-8")
    plan = planned(toolkit(tmp_path / "dtk", info))
    assert not has_probe(plan)
    source = tmp_path / "unit.cpp"
    source.write_text(
        "static inline int __any(int p) { return p; }\n#define __any_sync(m, v) __any(v)\n"
        "#include <hip/hip_cooperative_groups.h>\n",
        encoding="utf-8",
    )
    assert "redefinition" in complaint(["c++"], source, tmp_path / "dtk" / "include")
    assert complaint(["c++"], source, overlay(plan, tmp_path / "work")) == ""


def test_an_edited_overlay_is_refused(tmp_path: Path) -> None:
    plan = planned(SPECIMEN)
    (overlay(plan, tmp_path) / INFO).write_text("mine\n", encoding="utf-8")
    with pytest.raises(KeyelabError, match="it was edited"):
        overlay(plan, tmp_path)


def test_where_there_is_nothing_to_correct_the_reason_is_given(tmp_path: Path) -> None:
    assert plan_headers("", RULES) == (None, "no toolkit headers on this target")
    assert f"has no {INFO}" in plan_headers(str(tmp_path), RULES)[1]
    info = '#define _CG_ASM_PTR_CONSTRAINT "r"\n// int __any_sync(unsigned m, int p) { }\n'
    plan, reason = plan_headers(str(toolkit(tmp_path, info)), RULES)
    assert plan is None
    assert reason.endswith("need no correction")


def test_mode_none_reads_nothing_and_says_so(tmp_path: Path) -> None:
    plan, reason = plan_headers(str(tmp_path / "not there"), RULES, "none")
    assert plan is None
    assert "mode is none" in reason


def test_a_missing_toolkit_is_named(tmp_path: Path) -> None:
    with pytest.raises(KeyelabError, match="expected a toolkit folder"):
        plan_headers(str(tmp_path / "dtk"), RULES)


def test_a_header_that_does_not_fit_gives_the_way_round(tmp_path: Path) -> None:
    info = '#define _CG_ASM_PTR_CONSTRAINT "l"\n' * 5
    with pytest.raises(DoesNotFit, match="expected 0 to 4 places, found 5") as caught:
        plan_headers(str(toolkit(tmp_path, info)), RULES)
    assert "softmax-no-cooperative-groups" in caught.value.hint
