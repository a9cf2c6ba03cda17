"""How often servers were started with a work folder: servers/starts.jsonl, a line a start.

Starting again and again hides what is wrong, and on some cards a quick restart fails by itself.
The replicas of one phase are one start; adopting a server that runs is none.
"""

from __future__ import annotations

import json
import time
from pathlib import Path

from keyelab.errors import KeyelabError
from keyelab.files import write_text

HOUR_S = 3600.0


def note(workdir: Path, most_per_hour: int, run: str) -> None:
    """Count a start; raises KeyelabError with the next time allowed. `most_per_hour` 0: any."""
    file = workdir / "servers" / "starts.jsonl"
    now_s = time.time()
    recent = [line for line in _lines(file) if now_s - HOUR_S < line[0] <= now_s]
    if 0 < most_per_hour <= len(recent):
        at_s = recent[-most_per_hour][0] + HOUR_S
        clock = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at_s))
        raise KeyelabError(
            f"expected at most {most_per_hour} starts of a server an hour, found {len(recent)}; "
            f"the next is allowed at {clock}, in {(at_s - now_s) / 60:.0f} min",
            "see why it is started so often (its logs: keyelab diagnose), or allow more: "
            f"--set serve.max_starts_per_hour={2 * most_per_hour} (0 is any number)",
        )
    kept = [*recent, (now_s, run)]
    write_text(file, "".join(f"{json.dumps({'at_s': at, 'run': by})}\n" for at, by in kept))


def _lines(file: Path) -> list[tuple[float, str]]:
    found = []
    for line in file.read_text(encoding="utf-8").splitlines() if file.is_file() else []:
        try:
            said = json.loads(line)
            found.append((float(said["at_s"]), str(said["run"])))
        except (ValueError, KeyError, TypeError):
            continue  # a line that is no start counts for nothing
    return sorted(found)
