"""README.md's table of troubleshooting, made from the catalogue."""

from __future__ import annotations

from keyelab.diagnose.entry import catalogue
from keyelab.diagnose.match import diagnose


def troubleshooting() -> str:
    """A markdown table of the entries marked `readme`, in the catalogue's order.

    The values in it are those of each entry's example; of the remedy it gives the first step.
    """
    rows = ["| symptom | cause | fix |", "|---|---|---|"]
    for entry in catalogue().entries:
        if entry.readme:
            found = diagnose(entry.example).causes[0]
            cells = [f"`{entry.readme}`", found.title, found.steps[0]]
            rows.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(rows) + "\n"
