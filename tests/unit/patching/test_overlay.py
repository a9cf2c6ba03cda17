"""Corrected header copies, and the toolkit left alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from keyelab.errors import KeyelabError
from keyelab.files import project_root, sha256_tree
from keyelab.patching.headers import checks, facts, specimen_probe
from keyelab.patching.overlay import make_overlay, plan_headers, remove_overlay
from keyelab.patching.plan import DoesNotFit
from keyelab.patching.proof import compiles
from keyelab.patching.recipe import header_rules

SPECIMEN = project_root() / "patches" / "headers" / "specimen"
INFO = "hip/amd_detail/cooperative_groups/details/info.h"
RULES = header_rules()


def toolkit(folder: Path, info: str) -> Path:
    """A toolkit whose headers lead to info.h by quoted includes."""
    headers = {
        INFO: info,
        "hip/amd_detail/cooperative_groups/details/sync.h": '#include "info.h"\n',
        "hip/amd_detail/amd_hip_cooperative_groups.h": "#include <hip/amd_detail/"
        "cooperative_groups/details/sync.h>\n",
        "hip/hip_cooperative_groups.h": '# include "amd_detail/amd_hip_cooperative_groups.h"\n',
        "hip/hip_runtime.h": "#include <stdint.h>\n",
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
    before = sha256_tree(SPECIMEN)
    wanted = plan_headers(SPECIMEN, RULES)
    include = make_overlay(wanted, tmp_path)
    text = (include / INFO).read_text(encoding="utf-8")
    assert text.count('_CG_ASM_PTR_CONSTRAINT "r"') == 3
    assert '_CG_ASM_PTR_CONSTRAINT "l"' not in text
    assert "#ifndef __any_sync\nstatic inline int __any_sync(" in text
    assert sha256_tree(SPECIMEN) == before
    assert {check.status for check in checks(wanted, include, RULES)} == {"ok"}
    written = facts(wanted, include)
    assert written is not None
    assert written.files == [INFO]


def test_the_probe_fails_with_the_original_and_compiles_with_the_overlay(tmp_path: Path) -> None:
    wanted = plan_headers(SPECIMEN, RULES)
    probe = specimen_probe(wanted)
    assert probe is not None
    before = compiles("c++", probe, SPECIMEN / "include")
    assert not before.ok
    assert "redefinition of" in before.complaint
    assert compiles("c++", probe, make_overlay(wanted, tmp_path)).ok


def test_headers_that_lead_to_a_corrected_one_come_along(tmp_path: Path) -> None:
    info = (SPECIMEN / "include" / INFO).read_text(encoding="utf-8")
    wanted = plan_headers(toolkit(tmp_path / "dtk", info), RULES)
    assert wanted.companions == (
        "hip/amd_detail/amd_hip_cooperative_groups.h",
        "hip/amd_detail/cooperative_groups/details/sync.h",
        "hip/hip_cooperative_groups.h",
    )
    include = make_overlay(wanted, tmp_path / "work")
    names = {path.relative_to(include).as_posix() for path in include.rglob("*.h")}
    assert names == {INFO, *wanted.companions}
    source = tmp_path / "unit.cpp"
    source.write_text(
        "static inline int __any(int p) { return p; }\n#define __any_sync(m, v) __any(v)\n"
        "#include <hip/hip_cooperative_groups.h>\n",
        encoding="utf-8",
    )
    assert not compiles("c++", source, tmp_path / "dtk" / "include").ok
    assert compiles("c++", source, include).ok


def test_making_it_twice_is_the_same_and_removing_it_is_the_way_back(tmp_path: Path) -> None:
    wanted = plan_headers(SPECIMEN, RULES)
    include = make_overlay(wanted, tmp_path)
    digest = sha256_tree(include)
    assert make_overlay(plan_headers(SPECIMEN, RULES), tmp_path) == include
    assert sha256_tree(include) == digest
    remove_overlay(include)
    assert list((tmp_path / "overlays").iterdir()) == []
    with pytest.raises(KeyelabError, match="expected an overlay made by keyelab"):
        remove_overlay(include)


def test_an_edited_overlay_is_refused(tmp_path: Path) -> None:
    wanted = plan_headers(SPECIMEN, RULES)
    include = make_overlay(wanted, tmp_path)
    (include / INFO).write_text("mine\n", encoding="utf-8")
    with pytest.raises(KeyelabError, match="it was edited"):
        make_overlay(wanted, tmp_path)


def test_headers_that_were_corrected_in_place_need_nothing(tmp_path: Path) -> None:
    info = '#define _CG_ASM_PTR_CONSTRAINT "r"\n// int __any_sync(unsigned m, int p) { }\n'
    wanted = plan_headers(toolkit(tmp_path, info), RULES)
    assert wanted.plan is None
    assert wanted.reason.endswith("need no correction")
    written = facts(wanted, None)
    assert written is not None
    assert written.reason == wanted.reason


def test_a_toolkit_without_the_header_and_no_toolkit_are_reasons(tmp_path: Path) -> None:
    assert f"has no {INFO}" in plan_headers(tmp_path, RULES).reason
    assert plan_headers(None, RULES).reason == "no toolkit headers on this target"


def test_a_missing_toolkit_is_named(tmp_path: Path) -> None:
    with pytest.raises(KeyelabError, match="expected a toolkit folder"):
        plan_headers(tmp_path / "dtk", RULES)


def test_a_header_that_does_not_fit_gives_the_way_round(tmp_path: Path) -> None:
    info = '#define _CG_ASM_PTR_CONSTRAINT "l"\n' * 5
    with pytest.raises(DoesNotFit, match="expected 0 to 4 places, found 5") as caught:
        plan_headers(toolkit(tmp_path, info), RULES)
    assert "softmax-no-cooperative-groups" in caught.value.hint
