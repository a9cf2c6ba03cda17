"""Corrected header copies, and the toolkit left alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from keyelab.errors import KeyelabError
from keyelab.files import project_root, sha256_tree
from keyelab.patching.apply import apply_plan, digest_checks
from keyelab.patching.headers import FOLDER, complaint, has_probe, plan_headers, probe_check
from keyelab.patching.plan import DoesNotFit, Plan
from keyelab.patching.recipe import header_rules
from keyelab.patching.verify import post_conditions

SPECIMEN = project_root() / "patches" / "headers" / "specimen"
INFO = "hip/amd_detail/cooperative_groups/details/info.h"
RULES = header_rules()


def planned(root: Path) -> Plan:
    plan, reason = plan_headers(str(root), RULES)
    assert plan is not None
    assert reason == ""
    return plan


def overlay(plan: Plan, folder: Path) -> Path:
    return apply_plan(plan, folder, FOLDER).tree.parent


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


def test_every_branch_and_the_function_are_corrected_and_the_toolkit_is_untouched(
    tmp_path: Path,
) -> None:
    plan = planned(SPECIMEN)
    before = sha256_tree(plan.tree)
    applied = apply_plan(plan, tmp_path, FOLDER)
    text = (applied.tree.parent / INFO).read_text(encoding="utf-8")
    assert text.count('_CG_ASM_PTR_CONSTRAINT "r"') == 3
    assert '_CG_ASM_PTR_CONSTRAINT "l"' not in text
    assert "#ifndef __any_sync\nstatic inline int __any_sync(" in text
    checks = [*digest_checks(plan, applied, before), *post_conditions(applied.tree, RULES)]
    assert {check.status for check in checks} == {"ok"}
    assert apply_plan(plan, tmp_path, FOLDER).already


def test_the_probe_fails_with_the_original_and_compiles_with_the_overlay(tmp_path: Path) -> None:
    plan = planned(SPECIMEN)
    assert has_probe(plan.tree)
    original, include, log = plan.tree.parent, overlay(plan, tmp_path / "o"), tmp_path / "log"
    cured = probe_check(original, include, "c++", log)
    assert cured.status == "ok"
    assert "redefinition of" in cured.found
    assert probe_check(original, original, "c++", log).status == "failed"


def test_headers_that_include_each_other_stay_together(tmp_path: Path) -> None:
    info = (SPECIMEN / "include" / INFO).read_text(encoding="utf-8")
    plan = planned(toolkit(tmp_path / "dtk", info))
    assert not has_probe(plan.tree)
    source = tmp_path / "unit.cpp"
    source.write_text(
        "static inline int __any(int p) { return p; }\n#define __any_sync(m, v) __any(v)\n"
        "#include <hip/hip_cooperative_groups.h>\n",
        encoding="utf-8",
    )
    assert "redefinition" in complaint("c++", source, tmp_path / "dtk" / "include")
    assert complaint("c++", source, overlay(plan, tmp_path / "work")) == ""


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


def test_a_missing_toolkit_is_named(tmp_path: Path) -> None:
    with pytest.raises(KeyelabError, match="expected a toolkit folder"):
        plan_headers(str(tmp_path / "dtk"), RULES)


def test_a_header_that_does_not_fit_gives_the_way_round(tmp_path: Path) -> None:
    info = '#define _CG_ASM_PTR_CONSTRAINT "l"\n' * 5
    with pytest.raises(DoesNotFit, match="expected 0 to 4 places, found 5") as caught:
        plan_headers(str(toolkit(tmp_path, info)), RULES)
    assert "softmax-no-cooperative-groups" in caught.value.hint
