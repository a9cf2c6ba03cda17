"""The kernel gate: ggml's own test-backend-ops compares each operation with the CPU's result."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from keyelab import shell
from keyelab.build.plan import KERNEL_GATE, BuildPlan
from keyelab.build.result import Result
from keyelab.checks import Check, check
from keyelab.files import shown

# What the recipe touches, fused forms too, and what the model's graph needs. Flash attention is
# not among them: the recipe is served without it.
OPERATIONS = (
    "NORM", "NORM_MUL_ADD", "GROUP_NORM", "GROUP_NORM_MUL_ADD", "L2_NORM", "RMS_NORM",
    "RMS_NORM_BACK", "RMS_NORM_MUL_ADD", "RMS_NORM_MUL_ROPE", "ADD_RMS_NORM", "SOFT_MAX", "MEAN",
    "SUM", "SUM_ROWS", "ARGMAX", "ARGSORT", "TOP_K", "TOPK_MOE", "ADD_ID", "SOLVE_TRI",
    "GET_ROWS", "ROPE",
)  # fmt: skip
# Matrix products of the weights that the recipe is for; quantized ones need another recipe.
PRODUCTS = ("MUL_MAT", "MUL_MAT_ID")
WEIGHTS = "type_a=(f32|f16|bf16),"
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_CASE = re.compile(r"^  ([A-Z0-9_]+)\(.*\): .*?(OK|FAIL|not supported)")
_TOO_LARGE = re.compile(r"Launch params \(.*\) are larger than launch bounds")


@dataclass
class Tally:
    """Cases of one operation: tested, failed, not supported by the backend."""

    operation: str
    tested: int = 0
    failed: int = 0
    unsupported: int = 0


def run(
    plan: BuildPlan,
    seen: Result,
    env: Mapping[str, str],
    log: Path,
    on_progress: Callable[[float | None, str], None],
) -> tuple[list[Tally], list[Check]]:
    """Test the kernels of the first accelerator; CPU builds have none and get no verdict.

    Without an accelerator the verdict is unknown.
    """
    if KERNEL_GATE not in plan.programs:
        return [], []
    if not seen.devices:
        return [], [_verdict(None, "no accelerator to test on", log)]
    device = seen.devices[0].split(":")[0]
    gate = [str(plan.bin_dir / KERNEL_GATE), "test", "-b", device, "-o"]
    passes = [[*gate, ",".join(OPERATIONS)], [*gate, ",".join(PRODUCTS), "-p", WEIGHTS]]

    def testing(line: str) -> None:
        if found := _CASE.match(_COLOUR.sub("", line)):
            on_progress(None, found.group(1))

    done = [shell.run(argv, env=env, log=log, on_line=testing, check=False) for argv in passes]
    output = "".join(result.output for result in done)
    status = next((result.returncode for result in done if result.returncode), 0)
    tallies = parse(output)
    cases, failed = sum(t.tested for t in tallies), sum(t.failed for t in tallies)
    large = len(_TOO_LARGE.findall(output))
    bad = [f"{t.operation} {t.failed} of {t.tested}" for t in tallies if t.failed]
    found = f"{cases} cases on {device}, failing: {', '.join(bad) or 'none'}"
    if large:
        found += f"; {large} launches above their bounds"
    if status and not failed:
        found += f"; it ended with status {status}"
    good = cases > 0 and not failed and not large and status == 0
    return tallies, [_verdict(good, found, log)]


def parse(output: str) -> list[Tally]:
    """Count the cases in what test-backend-ops prints, one tally an operation."""
    tallies: dict[str, Tally] = {}
    for line in _COLOUR.sub("", output).splitlines():
        if not (found := _CASE.match(line)):
            continue
        tally = tallies.setdefault(found.group(1), Tally(found.group(1)))
        if found.group(2) == "not supported":
            tally.unsupported += 1
        else:
            tally.tested += 1
            tally.failed += found.group(2) == "FAIL"
    return sorted(tallies.values(), key=lambda tally: tally.operation)


def _verdict(good: bool | None, found: str, log: Path) -> Check:
    return check(
        "kernel gate",
        good,
        expected="every case of test-backend-ops agrees with the CPU",
        found=found,
        remedy=f"the answers of this build cannot be trusted: see {shown(log)}, then choose "
        "another recipe (keyelab run --from source_patch)",
    )
