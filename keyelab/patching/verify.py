"""What must hold in a patched tree: launches within the limit, kernels that agree with them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from keyelab.checks import Check
from keyelab.patching.after import post_conditions
from keyelab.patching.audit import launch_checks
from keyelab.patching.cuda.kernels import KERNELS, has_kernels
from keyelab.patching.launches import launches
from keyelab.patching.rule import Rule

__all__ = ["KERNELS", "verify"]


def verify(tree: Path, rules: Sequence[Rule], block_limit: int) -> list[Check]:
    """The checks of a patched tree: limit, agreement, and each rule's own post-conditions.

    Launches are read as a HIP build for the K100_AI (gfx928) compiles them; a tree without kernels
    is unknown.
    """
    found = launches(tree) if has_kernels(tree) else []
    return [*launch_checks(found, block_limit), *post_conditions(tree, rules)]
