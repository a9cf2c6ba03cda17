"""The kernel gate: ggml's own test-backend-ops compares each operation with the CPU's result."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
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
OUTCOMES = ("OK", "FAIL", "not supported")
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_CASE = re.compile(rf"^  ([A-Z0-9_]+)\(.*\): .*?({'|'.join(OUTCOMES)})", re.MULTILINE)
_TOO_LARGE = re.compile(r"Launch params \(.*\) are larger than launch bounds")


def run(
    plan: BuildPlan,
    seen: Result,
    env: Mapping[str, str],
    log: Path,
    on_progress: Callable[[float | None, str], None],
) -> tuple[list[dict[str, object]], list[Check]]:
    """Test the kernels of the first accelerator; returns table rows and the verdict.

    A CPU build has no such kernels and gets neither; without an accelerator it is unknown.
    """
    if KERNEL_GATE not in plan.programs:
        return [], []
    if not seen.devices:
        return [], [_verdict(None, "no card that this user can open: rocminfo, nvidia-smi", log)]
    device = seen.devices[0].split(":")[0]
    gate: list[str | Path] = [plan.bin_dir / KERNEL_GATE, "test", "-b", device, "-o"]

    def testing(line: str) -> None:
        if found := _CASE.match(_COLOUR.sub("", line)):
            on_progress(None, found[1])

    output, status = "", 0
    for chosen in ([",".join(OPERATIONS)], [",".join(PRODUCTS), "-p", WEIGHTS]):
        done = shell.run([*gate, *chosen], env=env, log=log, on_line=testing, check=False)
        output, status = output + done.output, status or done.returncode
    cases = parse(output)
    tested = sum(cases.values()) - sum(n for (_, how), n in cases.items() if how == OUTCOMES[2])
    failing = [f"{name} {n}" for (name, how), n in sorted(cases.items()) if how == "FAIL"]
    found = f"{tested} cases on {device}, failing: {', '.join(failing) or 'none'}"
    if large := len(_TOO_LARGE.findall(output)):
        found += f"; {large} launches above their bounds"
    if status and not failing:
        found += f"; it ended with status {status}"
    good = tested > 0 and not failing and not large and status == 0
    names = sorted({name for name, _ in cases})
    rows = [{"operation": name, **{how: cases[name, how] for how in OUTCOMES}} for name in names]
    return rows, [_verdict(good, found, log)]


def parse(output: str) -> Counter[tuple[str, str]]:
    """Count the cases in what test-backend-ops prints, by operation and outcome."""
    return Counter(_CASE.findall(_COLOUR.sub("", output)))


def _verdict(good: bool | None, found: str, log: Path) -> Check:
    return check(
        "kernel gate",
        good,
        expected="every case of test-backend-ops agrees with the CPU",
        found=found,
        remedy=f"the answers of this build cannot be trusted: see {shown(log)}, then choose "
        "another recipe (keyelab run --from source_patch)",
    )
