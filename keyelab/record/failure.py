"""A cell that failed: one sentence and a hint, and before them what the phase's logs say."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from keyelab.diagnose import diagnose
from keyelab.errors import KeyelabError
from keyelab.files import redact
from keyelab.record import display

# Failures on purpose; what stood on the screen; a server's log, which outlives the notebook.
_PASSED_OVER = ("03_header_fixes", "-probe", "-kernel", "-server-")


class Logs:
    """The logs of a phase, from where they ended when it began, or failed before."""

    def __init__(self, folder: Path, stem: str) -> None:
        self.folder = folder
        self.stem = stem
        self.read = self._sizes()

    def diagnosis(self) -> str:
        """What they say went wrong, as markdown; '' when nothing is known."""
        before, self.read = self.read, self._sizes()
        order = sorted(self.read, key=lambda path: path.stat().st_mtime)
        report = diagnose((path, before.get(path, 0)) for path in order)
        return str(report) if report.known else ""

    def _sizes(self) -> dict[Path, int]:
        return {
            path: path.stat().st_size
            for path in self.folder.glob(f"{self.stem}*.log")
            if not any(part in path.name for part in _PASSED_OVER)
        }


def shorten(diagnosis: Callable[[], str] = str) -> None:
    """Let expected failures print one sentence and a hint; the traceback goes to the log.

    What `diagnosis` returns is shown above them, unless the error brings its own.
    """
    try:
        from IPython.core.getipython import get_ipython
    except ImportError:  # a plain interpreter shows errors as it always does
        return
    shell = get_ipython()
    if shell is None:
        return

    def brief(self: Any, kind: Any, value: Any, trace: Any, tb_offset: Any = None) -> list[str]:
        if known := value.diagnosis or diagnosis():
            display.markdown(redact(known))
        text = "".join(traceback.format_exception(kind, value, trace))
        lines = [f"{kind.__name__}: {redact(str(value))}"]
        print(redact(text), file=sys.__stderr__)
        self._showtraceback(kind, value, lines)
        return lines

    shell.set_custom_exc((KeyelabError,), brief)
