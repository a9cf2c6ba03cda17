"""Host and device of real trees about gfx928 and its neighbours."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from keyelab.errors import UsageError
from keyelab.patching.agreement import (
    Family,
    agreement_checks,
    build_definitions,
    families,
    unused_by,
)
from keyelab.patching.plan import make_plan
from keyelab.patching.recipe import Recipe, load_recipe, patches
from keyelab.patching.rule import load_rule

KERNELS = "ggml/src/ggml-cuda"
ALL = ["mmf", "mmq", "mmvq", "mmvq_moe", "flash attention"]
NO_MFMA = ["GGML_HIP_NO_MMQ_MFMA"]


def by_name(tree: Path, arch: str, *definitions: str) -> dict[str, Family]:
    return {family.name: family for family in families(tree, arch, definitions)}


def apart(tree: Path, arch: str, *definitions: str) -> list[str]:
    """The families that do not agree, for what reason ever."""
    return [f.name for f in families(tree, arch, definitions) if f.agrees is not True]


def changed(source: Path, folder: Path, file: str, old: str, new: str) -> Path:
    """A copy of the kernels with one text replaced."""
    shutil.copytree(source / KERNELS, folder / KERNELS)
    path = folder / KERNELS / file
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")
    return folder


def registered(source: Path, folder: Path) -> Path:
    """A copy of the kernels after the rule gcn-register."""
    shutil.copytree(source / KERNELS, folder / KERNELS)
    plan = make_plan(folder, [load_rule(patches() / "llama.cpp" / "gcn-register.yaml")])
    for file, content in plan.require().after.items():
        (folder / file).write_bytes(content)
    return folder


def test_a_tree_that_cannot_be_read_is_unknown_and_never_agreed(tmp_path: Path) -> None:
    found = families(tmp_path, "gfx928")
    assert [family.name for family in found] == ALL
    assert {family.agrees for family in found} == {None}
    assert all("common.cuh" in family.why for family in found)
    assert {check.status for check in agreement_checks(tmp_path, "gfx928")} == {"unknown"}


@pytest.mark.parametrize("arch", ["928", "gfx", "gfx9-generic", "sm_90", "gfx928:xnack-"])
def test_a_name_that_is_no_chip_is_refused(tmp_path: Path, arch: str) -> None:
    with pytest.raises(UsageError, match="gfx928"):
        families(tmp_path, arch)


def test_a_recipe_says_which_families_are_not_started() -> None:
    values = {"title": "", "why": "", "block_limit": 256, "rules": []}
    floats = Recipe.model_validate({**values, "weights": ["F16"], "flash_attention": "off"})
    assert unused_by(floats) == set(ALL) - {"mmf"}
    quantized = Recipe.model_validate({**values, "weights": ["any"], "flash_attention": "auto"})
    assert unused_by(quantized) == set()


def test_cmake_entries_become_what_the_compiler_is_given(tmp_path: Path) -> None:
    path = tmp_path / "ggml/src/ggml-hip/CMakeLists.txt"
    path.parent.mkdir(parents=True)
    path.write_text(
        "if (NOT FAST)\n    add_compile_definitions(SLOW)\nendif()\n"
        "if (GRAPHS)\n    add_compile_definitions(USE_GRAPHS)\nendif()\n",
        encoding="utf-8",
    )
    assert build_definitions(tmp_path, {"FAST": "OFF", "GRAPHS": "off"}) == ["SLOW"]
    assert build_definitions(tmp_path, {"FAST": "ON", "GRAPHS": "ON"}) == ["USE_GRAPHS"]
    assert build_definitions(tmp_path, {"OTHER": "OFF"}) == []


@pytest.mark.source
def test_the_pinned_tree_disagrees_about_gfx928_in_five_ways(llama_source: Path) -> None:
    found = by_name(llama_source, "gfx928")
    assert {name: family.agrees for name, family in found.items()} == dict.fromkeys(ALL, False)
    assert found["mmf"].host.startswith("chosen for F32")
    assert found["mmf"].device == "no device code"
    assert found["mmq"].host == "cdna table, 512 threads"
    assert found["mmq"].device == "rdna2 table, bound 256"
    assert found["mmvq"].host == "GCN table, 128 threads for one column"
    assert found["mmvq"].device == "GENERIC table, bound 256"
    assert "without a message" in found["mmvq"].why
    assert found["mmvq_moe"].host == "at most 256 to 512 threads"
    assert found["mmvq_moe"].device == "bound 512"
    assert found["flash attention"].host.startswith("MMA_F16 for a prompt")
    assert found["flash attention"].device == "no device code in MMA_F16"


@pytest.mark.source
@pytest.mark.parametrize("arch", ["gfx900", "gfx906", "gfx908", "gfx90a", "gfx942", "gfx1030"])
def test_the_pinned_tree_agrees_about_cards_that_it_knows(llama_source: Path, arch: str) -> None:
    assert apart(llama_source, arch) == []
    assert apart(llama_source, arch, *NO_MFMA) == []


@pytest.mark.source
def test_the_matrix_cores_of_rdna3_have_device_code(llama_source: Path) -> None:
    found = by_name(llama_source, "gfx1100")
    assert {family.agrees for family in found.values()} == {True}
    assert found["mmf"].host == "chosen for F16, BF16, F16 with experts, BF16 with experts"
    assert found["mmq"].device == "rdna4 table, bound 256"


@pytest.mark.source
def test_the_defect_of_gfx90c_that_upstream_mended_later_is_found(llama_source: Path) -> None:
    assert apart(llama_source, "gfx90c") == ALL  # ggml-org/llama.cpp pull request 26454


@pytest.mark.source
def test_without_mfma_only_the_families_of_quantized_weights_disagree(llama_source: Path) -> None:
    assert apart(llama_source, "gfx928", *NO_MFMA) == ["mmq", "mmvq", "mmvq_moe"]
    recipe = load_recipe("flags")
    given = build_definitions(llama_source, recipe.cmake)
    assert given == NO_MFMA
    checks = agreement_checks(llama_source, "gfx928", given, unused_by(recipe))
    assert [check.status for check in checks] == ["ok", "ok"]


@pytest.mark.source
def test_a_chip_registered_on_the_host_alone_is_not_enough(
    llama_source: Path, tmp_path: Path
) -> None:
    old = "cc < GGML_CUDA_CC_CDNA1)"
    both = f"(cc < GGML_CUDA_CC_CDNA1 || cc == {hex(0x1000928)}))"
    tree = changed(llama_source, tmp_path, "common.cuh", old, both)
    path = tree / KERNELS / "common.cuh"
    text = path.read_text(encoding="utf-8")
    text = text.replace(
        "(cc >= GGML_CUDA_CC_CDNA1 &&", "(cc != 0x1000928 && cc >= GGML_CUDA_CC_CDNA1 &&"
    )
    path.write_text(text, encoding="utf-8")
    assert apart(tree, "gfx928") == ["mmvq", "mmvq_moe"]


@pytest.mark.source
def test_a_chip_registered_on_the_device_alone_is_not_enough(
    llama_source: Path, tmp_path: Path
) -> None:
    old = "#if defined(__gfx900__)"
    tree = changed(llama_source, tmp_path, "vendors/hip.h", old, f"{old} || defined(__gfx928__)")
    assert apart(tree, "gfx928") == ["mmf", "mmq", "mmvq_moe", "flash attention"]


@pytest.mark.source
def test_a_new_way_to_read_the_name_makes_everything_unknown(
    llama_source: Path, tmp_path: Path
) -> None:
    tree = changed(llama_source, tmp_path, "ggml-cuda.cu", "archMajor * 0x100", "archMajor * 100")
    assert {family.agrees for family in families(tree, "gfx906")} == {None}


@pytest.mark.source
def test_one_unreadable_predicate_leaves_the_other_families_known(
    llama_source: Path, tmp_path: Path
) -> None:
    old = "bool ggml_cuda_should_use_mmf(enum ggml_type type,"
    new = "bool ggml_cuda_should_use_mmf(enum ggml_type renamed,"
    tree = changed(llama_source, tmp_path, "mmf.cu", old, new)
    found = by_name(tree, "gfx906")
    assert found["mmf"].agrees is None
    assert found["mmf"].why == "not read: mmf.cu: the value of type is not known"
    assert {found[name].agrees for name in ALL[1:]} == {True}


@pytest.mark.source
def test_every_tree_disagrees_about_gfx928_until_it_is_registered(
    any_tree: Path, tmp_path: Path
) -> None:
    assert {family.agrees for family in families(any_tree, "gfx928")} == {False}
    tree = registered(any_tree, tmp_path)
    for arch in ("gfx928", "gfx906", "gfx90a", "gfx942", "gfx1100"):
        assert apart(tree, arch) == [], arch
