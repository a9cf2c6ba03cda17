"""What was replaced in a shared copy, never the values themselves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from keyelab.record.run import Run
from keyelab.record.sharing.personal import KINDS

REPORT = "SHARED.md"
Used = Mapping[tuple[str, str, str], int]
_MEANING = {"path": "checkout path", "serial": "serial number or key", "ip": "IP address"}
_MEANING |= {"mac": "MAC address", "mail": "e-mail address", "folder": "folder below a data disk"}


def rows(used: Used) -> Iterator[tuple[str, str, int, list[str]]]:
    """(kind, alias, times, files) of each alias, by kind."""
    aliases = sorted(
        {(KINDS.index(kind), len(alias), alias) for kind, alias, _ in used if kind in KINDS}
    )
    for rank, _, alias in aliases:
        files = {
            file: n
            for (kind, name, file), n in used.items()
            if (kind, name) == (KINDS[rank], alias)
        }
        yield _MEANING.get(KINDS[rank], KINDS[rank]), alias, sum(files.values()), sorted(files)


def summary(used: Used, left_out: Mapping[str, str]) -> list[str]:
    """The report in lines for a terminal."""
    lines = [
        f"  {alias:14} {kind}, {times} times in {len(files)} files"
        for kind, alias, times, files in rows(used)
    ]
    return [*lines, *(f"  left out {name}: {why}" for name, why in sorted(left_out.items()))]


def report(run: Run, used: Used, left_out: Mapping[str, str]) -> str:
    """SHARED.md of a copy."""
    assert run.original
    lines = [
        "# A shared copy",
        "",
        f"Of run {run.original.run_id}, whose SHA256SUMS has the SHA-256",
        f"`{run.original.sums_sha256}`. Names were replaced; the same thing has the same alias "
        "everywhere. The pages (.html) were made anew and are not counted. PNG files hold the same "
        "pixels and nothing else.",
        "",
    ]
    found = list(rows(used))
    if found:
        lines += ["| alias | kind | times | files |", "|---|---|---|---|"]
        lines += [
            f"| `{alias}` | {kind} | {times} | {', '.join(files)} |"
            for kind, alias, times, files in found
        ]
    else:
        lines.append("Nothing was found to replace.")
    if left_out:
        lines += ["", "Left out:", ""]
        lines += [f"- {name}: {why}" for name, why in sorted(left_out.items())]
    return "\n".join([*lines, ""])
