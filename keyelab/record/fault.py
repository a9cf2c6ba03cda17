"""What ended a run, so that the same failure is known again in another run."""

from __future__ import annotations

import io
import re
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

from keyelab.diagnose import Finding, diagnose
from keyelab.files import redact
from keyelab.record.failure import Logs
from keyelab.record.run import Failure, Run

_READ_BYTES = 16 << 20  # of a log, from its end: what failed stands there
_WIDTH = 240
_VARIES = re.compile(r"(?:~|\.)?(?:/[\w.+-]+)+/?|\b[0-9a-f]{8,}\b|\d+(?:\.\d+)?")


@dataclass(frozen=True)
class Fault:
    """A failure: `id` in the catalogue or "", `key` the same wherever it is the same."""

    phase: str
    kind: str
    sentence: str
    id: str
    title: str
    remedy: str
    key: str


def fault_of(run: Run, folder: Path) -> Fault | None:
    """The first failure of a run, looked up in the catalogue with the logs of its phase."""
    failed = next((phase for phase in run.phases if phase.failure), None)
    if failed is None or failed.failure is None:
        return None
    stem = Path(failed.notebook).stem
    found = None if failed.failure.kind == "interrupted" else _known(folder, stem, failed.failure)
    sentence = first_sentence(failed.failure.message).removeprefix(f"{failed.phase}: ")
    key = f"{failed.phase} {failed.failure.kind}: {_VARIES.sub('…', sentence)}"
    return Fault(
        phase=failed.phase,
        kind=failed.failure.kind,
        sentence=sentence,
        id=found.entry.id if found else "",
        title=found.title if found else sentence,
        remedy=found.remedy[0] if found else "",
        key=found.entry.id if found else key,
    )


def first_sentence(message: str) -> str:
    """The first line of an error without its class and log, at most 240 letters."""
    line = redact(next(iter(message.strip().splitlines()), "")).split("; log: ")[0]
    line = re.sub(r"^\w+(?:Error|Failed|Missing|Phase): ", "", line)
    return line if len(line) <= _WIDTH else line[:_WIDTH] + " …"


def _known(folder: Path, stem: str, failure: Failure) -> Finding | None:
    """The cause that the phase's logs and the message tell, or else the servers' logs."""
    try:
        own = sorted(Logs(folder / "logs", stem).read)
    except OSError:  # a link to nothing
        own = []
    servers = sorted((folder / "logs").glob("06_serve-server*.log"))
    for logs, said in ((own, failure.message), (servers, "")):
        cause = _cause(logs, said)
        if cause or stem < "06":
            return cause
    return None


def _cause(logs: list[Path], said: str) -> Finding | None:
    with ExitStack() as stack:
        streams = []
        for path in logs:
            with suppress(OSError):  # what cannot be read tells nothing
                if path.is_file():
                    stream = stack.enter_context(path.open("rb"))
                    stream.seek(max(0, path.stat().st_size - _READ_BYTES))
                    streams.append(stream)
        return diagnose([*streams, io.BytesIO(said.encode())]).cause
