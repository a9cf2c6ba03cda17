"""What measure.sh and perf.sh left, as the small tables kept in tests/gpu/results/.

    python tests/gpu/summary.py cases SUITE_LOG...            counts an operation and log
    python tests/gpu/summary.py launches LAUNCHES_TXT...      most threads a kernel and file
    python tests/gpu/summary.py ratios PERF_DIR FIRST SECOND  times (µs) and SECOND / FIRST
    python tests/gpu/summary.py costs WORKAROUNDS_JSONL       speed of each case over stock's

Prints JSON. Kernels are named without their arguments; of one kernel's instances the largest block
counts.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path
from statistics import median
from typing import Any

from keyelab.build.cases import parse

RUN = re.compile(r"^  (\w+)\([^\n]*?sources=([^)\n]*)\): |runs -\s+([\d.]+) us/run", re.MULTILINE)


def cases(logs: list[Path]) -> dict[str, Any]:
    """{operation: {folder of the log: "OK, FAIL, not supported"}}."""
    table: defaultdict[str, dict[str, str]] = defaultdict(dict)
    for log in logs:
        counted: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for case in parse(log.read_text(encoding="utf-8", errors="replace")):
            counted[case.operation][case.outcome] += 1
        for name, count in counted.items():
            numbers = [count[outcome] for outcome in ("OK", "FAIL", "not supported")]
            table[name][log.parent.name] = "{} OK, {} FAIL, {} not supported".format(*numbers)
    return dict(sorted(table.items()))


def launches(files: list[Path]) -> dict[str, Any]:
    """{kernel: {folder of the file: most threads a block}}."""
    table: defaultdict[str, dict[str, int]] = defaultdict(dict)
    for file in files:
        text = subprocess.run(
            ["c++filt"], input=file.read_bytes(), check=True, capture_output=True
        ).stdout.decode()
        for threads, _, name in (
            line.removeprefix("refused ").split(" ", 2) for line in text.splitlines()
        ):
            kernel = re.sub(r"^(void )?([\w:]+).*", r"\2", name)
            row = table[kernel]
            row[file.parent.name] = max(row.get(file.parent.name, 0), int(threads))
    return dict(sorted(table.items()))


def ratios(folder: Path, first: str, second: str) -> list[dict[str, Any]]:
    """One row an operation and shape: times in µs a round, median of `second` over `first`."""
    times: defaultdict[tuple[str, str], dict[str, list[float]]] = defaultdict(dict)
    for name in (first, second):
        for log in sorted(folder.glob(f"{name}.*.log")):
            text = re.sub(r"\x1b\[[0-9;]*m", "", log.read_text(encoding="utf-8"))
            case = ("", "")
            for found in RUN.finditer(text):
                if found[3] is None:
                    case = (found[1], found[2])
                else:
                    times[case].setdefault(name, []).append(float(found[3]))
    return [
        {
            "operation": operation,
            "sources": sources,
            f"{first}_us": by[first],
            f"{second}_us": by[second],
            "ratio": round(median(by[second]) / median(by[first]), 2),
        }
        for (operation, sources), by in times.items()
    ]


def costs(file: Path) -> list[dict[str, Any]]:
    """One row a model, case, flash attention, kind and depth of workarounds.py.

    `tps` is [least, median, most] of its samples (tokens/s); `ratio` that median over the one of
    the reference at the same place (`stock`; of slots `one-slot`), with the smallest and largest
    quotient that the samples allow.
    """
    samples: defaultdict[tuple[Any, ...], list[float]] = defaultdict(list)
    for line in file.read_text(encoding="utf-8").splitlines():
        test = json.loads(line)
        place = (test["model"], test["flash_attention"], test["what"], test["depth_tokens"])
        samples[(*place, test["case"])] += test["tps"]
    rows = []
    for (*place, case), found in samples.items():
        reference = samples.get(
            (*place, "one-slot" if "slot" in case or case == "four-apart" else "stock")
        )
        row = dict(zip(("model", "flash_attention", "what", "depth_tokens"), place, strict=True))
        row |= {"case": case, "tps": [round(v, 1) for v in (min(found), median(found), max(found))]}
        if reference:
            quotients = (
                min(found) / max(reference),
                median(found) / median(reference),
                max(found) / min(reference),
            )
            row["ratio"] = [round(value, 3) for value in quotients]
        rows.append(row)
    return rows


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["cases", *logs] if logs:
            found: Any = cases([Path(log) for log in logs])
        case ["launches", *files] if files:
            found = launches([Path(file) for file in files])
        case ["ratios", folder, first, second]:
            found = ratios(Path(folder), first, second)
        case ["costs", file]:
            found = costs(Path(file))
        case _:
            raise SystemExit(__doc__)
    print(json.dumps(found, indent=1))
