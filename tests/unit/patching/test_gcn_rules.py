"""gfx928 and its sisters as GCN: what a compiler makes of the patched macros, on real trees."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from keyelab.patching.after import post_conditions
from keyelab.patching.plan import DoesNotFit, make_plan
from keyelab.patching.recipe import patches
from keyelab.patching.rule import Rule, load_rule

pytestmark = pytest.mark.source
KERNELS = Path("ggml/src/ggml-cuda")
REGISTER, DOT = (
    load_rule(patches() / "llama.cpp" / f"{name}.yaml") for name in ("gcn-register", "dot-products")
)
HYGON = ("926", "928", "936", "938")
# what upstream itself says of each card: family and number
OTHERS = {"803": "GCN", "900": "GCN", "906": "GCN", "908": "CDNA1", "90a": "CDNA2", "942": "CDNA3"}
FAMILIES = ("GCN", "CDNA", "CDNA1", "CDNA2", "CDNA3", "CDNA4", "RDNA")


def patched(source: Path, folder: Path, *rules: Rule) -> Path:
    """The two headers of a tree with the rules applied to them."""
    for name in ("common.cuh", "vendors/hip.h"):
        (folder / KERNELS / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source / KERNELS / name, folder / KERNELS / name)
    plan = make_plan(folder, rules).require()
    for file, content in plan.after.items():
        (folder / file).write_bytes(content)
    return folder


def accepted(program: str, *flags: str) -> None:
    """Let the C++ compiler check the static_asserts of a program."""
    argv = ["c++", "-x", "c++", "-std=c++17", "-fsyntax-only", *flags, "-"]
    done = subprocess.run(argv, input=program, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def host(tree: Path) -> str:
    """The numbers and ranges of the host, with a static_assert for each card."""
    text = (tree / KERNELS / "common.cuh").read_text(encoding="utf-8")
    lines = re.findall(r"^#define GGML_CUDA_CC_.*$", text, re.MULTILINE)
    for card, family in {**dict.fromkeys(HYGON, "GCN"), **OTHERS}.items():
        belongs = {family, re.sub(r"\d$", "", family)}
        for other in FAMILIES:
            wanted = "" if other in belongs else "!"
            cc = f"GGML_CUDA_CC_OFFSET_AMD + 0x{card}"
            lines.append(f'static_assert({wanted}GGML_CUDA_CC_IS_{other}({cc}), "{card} {other}");')
    return "\n".join(lines)


def device(tree: Path, *wanted: str) -> str:
    """The families of the device and the guards of the dot products, which have to hold."""
    families = (tree / KERNELS / "vendors/hip.h").read_text(encoding="utf-8")
    families = families.partition("#define __CUDA_ARCH__ 1300")[2].partition("#ifndef __has_b")[0]
    text = (tree / KERNELS / "common.cuh").read_text(encoding="utf-8")
    dot2 = re.search(r"^#if .*\n#define V_DOT2_F32_F16_AVAILABLE\n#endif.*$", text, re.MULTILINE)
    dot4 = re.search(r"^#if (.*)\n    c = __builtin_amdgcn_sdot4", text, re.MULTILINE)
    assert dot2
    assert dot4
    found = f"{families}\n{dot2.group()}\n#if {dot4.group(1)}\n#define SDOT4\n#endif\n"
    names = ("GCN", "GCN5", "CDNA", "RDNA", "SDOT4", "V_DOT2_F32_F16_AVAILABLE")
    for name in names:
        test = "ifndef" if name in wanted else "ifdef"
        found += f"#{test} {name}\n#error {name}\n#endif\n"
    return found


def test_host_and_device_call_the_card_gcn(any_tree: Path, tmp_path: Path) -> None:
    tree = patched(any_tree, tmp_path, REGISTER)
    accepted(host(tree))
    for card in HYGON:
        accepted(device(tree, "GCN", "GCN5"), "-DGGML_USE_HIP", f"-D__gfx{card}__")
    gfx906 = ("GCN", "GCN5", "SDOT4", "V_DOT2_F32_F16_AVAILABLE")
    accepted(device(tree, *gfx906), "-DGGML_USE_HIP", "-D__gfx906__")


def test_dot_products_are_opened_for_the_card(any_tree: Path, tmp_path: Path) -> None:
    tree = patched(any_tree, tmp_path, REGISTER, DOT)
    all_of_them = ("GCN", "GCN5", "SDOT4", "V_DOT2_F32_F16_AVAILABLE")
    for card in (*HYGON, "906"):
        accepted(device(tree, *all_of_them), "-DGGML_USE_HIP", f"-D__gfx{card}__")
    accepted(device(tree, "GCN", "GCN5"), "-DGGML_USE_HIP", "-D__gfx900__")


def test_the_untouched_tree_disagrees(any_tree: Path) -> None:
    with pytest.raises(AssertionError, match="928 GCN"):
        accepted(host(any_tree))
    accepted(device(any_tree), "-DGGML_USE_HIP", "-D__gfx928__")


def test_post_conditions_hold_only_afterwards(any_tree: Path, tmp_path: Path) -> None:
    before = {check.status for check in post_conditions(any_tree, [DOT])}
    assert before == {"failed"}
    tree = patched(any_tree, tmp_path, REGISTER, DOT)
    assert {check.status for check in post_conditions(tree, [REGISTER, DOT])} == {"ok"}


def test_dot_products_alone_do_not_fit(any_tree: Path, tmp_path: Path) -> None:
    with pytest.raises(DoesNotFit, match="the macro HYGON that it tests is defined"):
        patched(any_tree, tmp_path, DOT)


def test_a_second_run_knows_the_first(any_tree: Path, tmp_path: Path) -> None:
    tree = patched(any_tree, tmp_path, REGISTER, DOT)
    assert [outcome.state for outcome in make_plan(tree, [REGISTER, DOT]).outcomes] == [
        "applied",
        "applied",
    ]
