"""Progress of long work: a bar in JupyterLab, one line an event elsewhere."""

from __future__ import annotations

import os
import time
from types import TracebackType
from typing import Any

_QUIET_S = 15.0


class Progress:
    """`with step.progress("build") as bar: bar(0.4, "122 of 305")`; None is unknown."""

    def __init__(self, title: str) -> None:
        self.title = title
        self.started = time.monotonic()
        self._last_line = float("-inf")
        self._last_tenth = -1
        self._bar: Any = None

    def __enter__(self) -> Progress:
        if "JPY_SESSION_NAME" in os.environ and "KEYELAB_INJECTED" not in os.environ:
            import ipywidgets
            from IPython.display import display

            self._bar = ipywidgets.FloatProgress(min=0.0, max=1.0, description="")
            self._text = ipywidgets.Label(self.title)
            display(ipywidgets.HBox([self._bar, self._text]))
        return self

    def __call__(self, fraction: float | None, text: str = "") -> None:
        """Tell how far the work is (0 to 1, or None) and what it does."""
        left = self._left(fraction)
        if self._bar is not None:
            self._bar.value = fraction or 0.0
            self._text.value = f"{self.title} {text}{left}"
            return
        now = time.monotonic()
        tenth = -1 if fraction is None else int(fraction * 10)
        if tenth == self._last_tenth and now - self._last_line < _QUIET_S:
            return
        self._last_line, self._last_tenth = now, tenth
        percent = "" if fraction is None else f"{fraction * 100:3.0f} % "
        print(f"{self.title} {percent}{text}{left}", flush=True)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        seconds = time.monotonic() - self.started
        how = "stopped" if kind else "done"
        if self._bar is not None:
            self._bar.value = self._bar.value if kind else 1.0
            self._bar.bar_style = "danger" if kind else "success"
        print(f"{self.title} {how} after {seconds:.1f} s", flush=True)

    def _left(self, fraction: float | None) -> str:
        if not fraction or fraction >= 1:
            return ""
        seconds = (time.monotonic() - self.started) * (1 - fraction) / fraction
        return f", about {_spoken(seconds)} left" if seconds >= 1 else ""


def _spoken(seconds: float) -> str:
    return f"{seconds / 60:.0f} min" if seconds >= 90 else f"{seconds:.0f} s"
