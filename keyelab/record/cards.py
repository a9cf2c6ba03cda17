"""Markdown of the identity card, the verdict card and tables."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from keyelab import __version__
from keyelab.checks import Check
from keyelab.params import Resolved

_ORDER = {"failed": 0, "unknown": 1, "warned": 2, "ok": 3}


def table(rows: Sequence[Mapping[str, Any]], columns: Sequence[str] | None = None) -> str:
    """A markdown table; None shows as 'unknown'."""
    if not rows:
        return "*nothing to show*"
    names = list(columns or rows[0])
    lines = ["| " + " | ".join(names) + " |", "|" + " --- |" * len(names)]
    lines += ["| " + " | ".join(cell(row.get(name)) for name in names) + " |" for row in rows]
    return "\n".join(lines)


def cell(value: Any) -> str:
    """A value as a table cell."""
    if value is None:
        return "unknown"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.2f}"
    return re.sub(r"\s+", " ", str(value)).replace("|", "\\|").strip()


def identity(stem: str, resolved: Resolved[Any], run_dir: str) -> str:
    """Who this notebook is: target, run, version, and each parameter with its source."""
    values = resolved.values
    mode = " · **dry run: nothing is done**" if values.dry_run else ""
    rows = [
        {
            "parameter": f"`{name}`",
            "value": f"`{value}`" if str(value) else "",
            "source": resolved.sources[name],
            "meaning": type(values).model_fields[name].description,
        }
        for name, value in values.model_dump().items()
    ]
    head = f"**{stem}** · target `{values.target}` · run `{run_dir}` · keyelab {__version__}{mode}"
    return f"{head}\n\n{table(rows)}"


def check_rows(checks: Sequence[Check]) -> list[dict[str, str]]:
    """Checks as table rows, the ones that need attention first."""
    return [
        {
            "check": item.name,
            "verdict": item.status if item.status == "ok" else f"**{item.status}**",
            "expected": item.expected,
            "found": item.found,
            "remedy": item.remedy,
        }
        for item in sorted(checks, key=lambda item: _ORDER[item.status])
    ]


def verdict(stem: str, status: str, checks: Sequence[Check], following: str, target: str) -> str:
    """How the phase ended, its checks, and what to type next."""
    counts = [
        f"{n} {s}"
        for s in ("ok", "warned", "failed", "unknown")
        if (n := sum(item.status == s for item in checks))
    ]
    lines = [
        f"### {stem}: {status}",
        "",
        f"{len(checks)} checks: {', '.join(counts)}" if checks else "",
    ]
    if checks:
        lines += ["", table(check_rows(checks))]
    if following and status in ("passed", "warned"):
        lines += ["", f"Next: `keyelab run --target {target} --from {following}`, or its notebook."]
    return "\n".join(lines)


def diff_size(text: str) -> str:
    """'3 files, +10 −4' of a unified diff."""
    lines = text.splitlines()
    files = sum(line.startswith("+++ ") for line in lines)
    added = sum(line.startswith("+") and not line.startswith("+++ ") for line in lines)
    removed = sum(line.startswith("-") and not line.startswith("--- ") for line in lines)
    return f"{files} file{'s' if files != 1 else ''}, +{added} −{removed}"
