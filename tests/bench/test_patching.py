"""Plan, apply and verify on the full tree of b10019; the copy of the tree is most of it."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest

from keyelab.files import sha256_tree
from keyelab.patching.after import post_conditions
from keyelab.patching.apply import apply_plan, digest_checks
from keyelab.patching.plan import make_plan
from keyelab.patching.recipe import load_recipe

pytestmark = [pytest.mark.bench, pytest.mark.source]
T = TypeVar("T")


def timed(work: Callable[[], T]) -> tuple[T, float]:
    started = time.perf_counter()
    return work(), time.perf_counter() - started


def test_plan_apply_and_verify_take_little_more_than_copying_the_tree(
    llama_source: Path, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    rules = load_recipe("article").rules
    files = sum(1 for path in llama_source.rglob("*") if path.is_file())
    base, hash_s = timed(lambda: sha256_tree(llama_source))
    _, copy_s = timed(lambda: shutil.copytree(llama_source, tmp_path / "copy", symlinks=True))
    plan, plan_s = timed(lambda: make_plan(llama_source, rules).require())
    applied, apply_s = timed(lambda: apply_plan(plan, tmp_path / "store"))
    checks, verify_s = timed(
        lambda: [*digest_checks(plan, applied, base), *post_conditions(applied.tree, rules)]
    )
    assert {check.status for check in checks} == {"ok"}
    total_s = plan_s + apply_s + verify_s
    for name, value in {
        "files": files, "copy_s": copy_s, "hash_s": hash_s, "plan_s": plan_s,
        "apply_s": apply_s, "verify_s": verify_s, "total_s": total_s,
    }.items():  # fmt: skip
        record_property(name, value)
    # two digests in each of apply and verify; twice that and the copy for a busy machine
    assert total_s < 2 * (copy_s + 4 * hash_s) + 1
    assert plan_s < 20 * hash_s
