"""The kernel gate: ggml's own test-backend-ops compares each operation with the CPU's result."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path

from keyelab import shell
from keyelab.build import cases
from keyelab.build.plan import KERNEL_GATE, BuildPlan
from keyelab.build.result import Result
from keyelab.checks import Check, check
from keyelab.errors import CommandFailed
from keyelab.facts import SourceFacts
from keyelab.files import located, shown, write_json

# What the model's graph needs.
NEEDED = (
    "MUL_MAT", "MUL_MAT_ID", "SOFT_MAX", "RMS_NORM", "NORM", "ARGSORT", "TOP_K", "SUM_ROWS",
    "FLASH_ATTN_EXT", "GET_ROWS", "ROPE",
)  # fmt: skip
# Fused forms and relatives of what recipes touch; a tree without one of them says nothing of it.
FUSED = (
    "NORM_MUL_ADD", "GROUP_NORM", "GROUP_NORM_MUL_ADD", "L2_NORM", "RMS_NORM_BACK",
    "RMS_NORM_MUL_ADD", "RMS_NORM_MUL_ROPE", "ADD_RMS_NORM", "MEAN", "SUM", "ARGMAX", "TOPK_MOE",
    "ADD_ID", "SOLVE_TRI", "MUL_MAT_VEC_FUSION", "MUL_MAT_ID_FUSION",
)  # fmt: skip
LIMIT_S = 7200.0  # a hung kernel never ends by itself
_COMPLAINT = re.compile(
    r".*(?:Launch params \(.*\) are larger than launch bounds|has no device code).*"
)


def run(
    plan: BuildPlan,
    seen: Result,
    env: Mapping[str, str],
    log: Path,
    on_progress: Callable[[float | None, str], None],
) -> tuple[list[dict[str, object]], list[Check]]:
    """Test the kernels of the first accelerator; returns table rows and the verdict.

    The verdict is also left in workdir/gates/ for the next choice of a recipe. A CPU build has
    no such kernels and gets neither; without an accelerator it is unknown.
    """
    if KERNEL_GATE not in plan.programs:
        return [], []
    if not seen.devices:
        return [], [_verdict(None, "no card that this user can open: rocminfo, nvidia-smi", log)]
    device = seen.devices[0].split(":")[0]
    runs = [
        ask(plan, ["test", "-b", device, *words], env, log, on_progress)
        for words in passes(plan.source)
    ]
    output = "\n".join(said for said, _ in runs)
    ends = [end for _, end in runs if end]
    results = cases.parse(output)
    rows = cases.rows(results, plan.source.patches)
    failing = [row for row in rows if row[cases.FAIL]]
    tested = {case.operation for case in results if case.outcome != cases.UNSUPPORTED}
    complaints = [line.strip() for line in _COMPLAINT.findall(output)]
    found = f"{sum(case.outcome != cases.UNSUPPORTED for case in results)} cases on {device}"
    found += f", failing: {', '.join(map(_blamed, failing)) or 'none'}"
    if complaints:
        found += f"; {len(complaints)} complaints of the runtime, the first: {complaints[0][:200]}"
    if ends and not failing:
        found += f"; it {ends[0]}" + (f" after {results[-1].operation}" if results else "")
    good = bool(tested) and not failing and not complaints and not ends
    names = [str(row["operation"]) for row in failing]
    remember(plan, seen, names or ([] if good else [found]))
    missing = [name for name in asked(plan.source, NEEDED) if name not in tested]
    untested = check(
        "operations tested",
        None if missing else True,
        expected="at least one case of every operation that matters",
        found=f"no case of {', '.join(missing)}" if missing else f"{len(tested)} operations",
        remedy=f"see which are not supported or not in this source: {shown(log)}",
    )
    return rows, [_verdict(good, found, log), untested]


def asked(source: SourceFacts, names: Iterable[str] = (*NEEDED, *FUSED)) -> list[str]:
    """The operations to test: `names` and those of the recipe's rules, in alphabetical order."""
    left_out = {"FLASH_ATTN_EXT"} if source.flash_attention == "off" else set()
    return sorted({*names, *source.gate} - left_out)


def passes(source: SourceFacts) -> list[list[str]]:
    """Arguments of test-backend-ops, one list a run.

    Matrix products are tested for the weights that the recipe makes right, the rest for all.
    """
    names = asked(source)
    if source.weights == ["any"]:
        return [["-o", ",".join(names)]]
    products = [name for name in names if name.startswith("MUL_MAT")]
    types = f"type(_a)?=({'|'.join(name.lower() for name in source.weights)}),"
    others = ",".join(name for name in names if name not in products)
    return [["-o", others], ["-o", ",".join(products), "-p", types]]


def ask(
    plan: BuildPlan,
    words: Sequence[str],
    env: Mapping[str, str],
    log: Path,
    on_progress: Callable[[float | None, str], None],
) -> tuple[str, str]:
    """Run test-backend-ops; returns what it printed and how it ended ('' for status 0)."""
    lines: list[str] = []

    def hear(line: str) -> None:
        lines.append(line)
        if found := re.match(r".*  ([A-Z0-9_]+)\(", line):
            on_progress(None, found[1])

    program = plan.bin_dir / KERNEL_GATE
    try:
        done = shell.run(
            [program, *words], env=env, log=log, on_line=hear, check=False, timeout_s=LIMIT_S
        )
    except CommandFailed:
        return "\n".join(lines), f"was still running after {LIMIT_S:,.0f} s"
    return "\n".join(lines), f"ended with status {done.returncode}" if done.returncode else ""


def remember(plan: BuildPlan, seen: Result, failing: Sequence[str]) -> None:
    """Leave the verdict on this tree in workdir/gates/<digest of the tree>.json, passed or not."""
    content = {
        "schema": 1,
        "passed": not failing,
        "failing": list(failing),
        "recipe": plan.source.recipe,
        "device": seen.devices[0],
        "when": datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
    write_json(located(plan.params.workdir) / "gates" / f"{plan.source.tree_sha256}.json", content)


def _blamed(row: Mapping[str, object]) -> str:
    rules = f" (suspect {row['suspect']})" if row["suspect"] else " (no rule of the recipe)"
    return f"{row['operation']} {row[cases.FAIL]}{rules}"


def _verdict(good: bool | None, found: str, log: Path) -> Check:
    return check(
        "kernel gate",
        good,
        expected="every case of test-backend-ops agrees with the CPU",
        found=found,
        remedy=f"the answers of this build cannot be trusted: see {shown(log)}, then choose "
        "another recipe (keyelab run --from source_patch)",
    )
