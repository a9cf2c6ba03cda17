"""The papermill engine `keyelab`: NBClient's, but its record of a broken run is true.

Papermill 2.7 turns every pending cell into a completed one when a kernel dies, a cell times
out, or the run is interrupted (papermill/engines.py, notebook_complete; clientwrap.py catches
CellExecutionError alone). Here the cell that was running is marked failed, later ones stay
pending, a banner says what happened, and an interrupted run exits with 130.
"""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import nbformat
from jupyter_client.kernelspec import KernelSpecManager, NoSuchKernel
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
from papermill.clientwrap import PapermillNotebookClient
from papermill.engines import NBClientEngine, NotebookExecutionManager
from papermill.iorw import papermill_io

from keyelab.errors import KeyelabError
from keyelab.files import located, redact, shown, write_text
from keyelab.record import hold
from keyelab.record.failure import Logs
from keyelab.record.nb import INJECTED
from keyelab.record.run import unwritten
from keyelab.record.seal import SUMS
from keyelab.record.signals import held_back

INTERRUPTED = 130
BANNER_TAG = "papermill-error-cell-tag"  # papermill drops cells with this tag from its inputs


class HonestClient(PapermillNotebookClient):  # type: ignore[misc]
    """Marks the cell that was running as failed, whatever stopped it."""

    def __init__(self, nb_man: NotebookExecutionManager, logs: Logs | None, **traits: Any) -> None:
        super().__init__(nb_man, **traits)
        self._logs = logs

    def papermill_execute_cells(self) -> None:
        """Execute the cells; the first one that does not complete ends the run."""
        for index, cell in enumerate(self.nb.cells):
            self.nb_man.cell_start(cell, index)
            try:
                self.execute_cell(cell, index)
            except CellExecutionError as error:
                self.nb_man.cell_exception(cell, cell_index=index, exception=error)
                self._outcome("failed", "error", index)
                break
            except BaseException as error:
                self.stopped(index, error)
                raise
            finally:
                self.nb_man.cell_complete(cell, cell_index=index)
        else:
            self._outcome("completed", "", None)

    def stopped(self, index: int, error: BaseException) -> None:
        """Record what stopped the run at a cell, unless that was done."""
        if self.nb.metadata.papermill["exception"]:
            return
        cell = self.nb.cells[index]
        self.nb_man.cell_exception(cell, cell_index=index, exception=error)
        outcome, reason = _why(error)
        self._outcome(outcome, reason, index)
        self._banner(cell, index, outcome, reason)

    def start_new_kernel(self, **kwargs: Any) -> None:
        """Start it; an interruption waits until it is known which process that is."""
        with held_back() as came:
            super().start_new_kernel(**kwargs)
        if came:
            raise KeyboardInterrupt

    def end_kernel(self) -> None:
        """End a kernel whose start or end was interrupted: it would write into a sealed record."""
        with held_back():
            if self.km is not None and self.km.has_kernel:
                self.shutdown_kernel = "immediate"
                self._cleanup_kernel()

    def set_widgets_metadata(self) -> None:
        """Records hold no widget state: code forges and offline HTML cannot draw it."""

    def _outcome(self, outcome: str, reason: str, index: int | None) -> None:
        self.nb.metadata["keyelab"] = {"schema": 1, "outcome": outcome, "reason": reason}
        if index is not None:
            self.nb.metadata["keyelab"]["failed_cell"] = self.nb.cells[index].get("id", str(index))

    def _banner(self, cell: Any, index: int, outcome: str, reason: str) -> None:
        said = {
            "dead-kernel": "the kernel died (killed, or out of memory)",
            "timeout": "the cell ran out of time",
            "interrupted": "the run was interrupted",
        }.get(reason, f"the run was stopped by {reason}")
        first = (cell.source.splitlines() or [""])[0]
        known = self._logs.diagnosis() if self._logs else ""
        banner = nbformat.v4.new_markdown_cell(
            f"**{outcome}: {said} in cell {index + 1}, `{first[:80]}`.** "
            f"Cells after it did not run.\n\n{known}".rstrip()
        )
        banner.metadata["tags"] = [BANNER_TAG]
        banner.metadata["papermill"] = dict(cell.metadata["papermill"], status="completed")
        banner.metadata["papermill"].update(exception=False, start_time=None, end_time=None)
        self.nb.cells.insert(0, banner)


class KeyelabEngine(NBClientEngine):  # type: ignore[misc]
    """`papermill … --engine keyelab`, and what `keyelab run` uses."""

    @classmethod
    def execute_notebook(cls, nb: Any, kernel_name: str, *words: Any, **named: Any) -> Any:
        """Run the notebook, or stop before an output is written that looks like a run."""
        _require_kernel(kernel_name)
        _write_atomically()
        with _run_folder(_given(nb)) as lock:
            named["pass_fds"] = lock
            return super().execute_notebook(nb, kernel_name, *words, **named)

    @classmethod
    def execute_managed_notebook(
        cls,
        nb_man: NotebookExecutionManager,
        kernel_name: str,
        log_output: bool = False,
        stdout_file: Any = None,
        stderr_file: Any = None,
        start_timeout: int = 60,
        execution_timeout: int | None = None,
        kernel_stderr: Any = None,
        pass_fds: Sequence[int] = (),
        **kwargs: Any,
    ) -> Any:
        """Run the notebook; raises what stopped it, SystemExit(130) for an interruption."""
        given = _given(nb_man.nb)
        stem = Path(kwargs.pop("input_path", None) or "").stem
        folder = located(given["run_dir"]) / "logs" if given.get("run_dir") else None
        client = HonestClient(
            nb_man,
            Logs(folder, stem) if folder else None,
            kernel_name=kernel_name,
            log_output=log_output,
            stdout_file=stdout_file,
            stderr_file=stderr_file,
            startup_timeout=start_timeout,
            timeout=execution_timeout or kwargs.pop("timeout", None),
            coalesce_streams=True,
            **{k: v for k, v in kwargs.items() if k in PapermillNotebookClient.class_trait_names()},
        )
        with _injected(list(given)), _sigterm_interrupts():
            try:
                env = dict(os.environ)
                return client.execute(env=env, stderr=kernel_stderr, pass_fds=tuple(pass_fds))
            except BaseException as error:
                client.end_kernel()
                client.stopped(0, error)  # a kernel that did not start has run no cell
                if isinstance(error, KeyboardInterrupt):
                    raise SystemExit(INTERRUPTED) from None
                raise


def _given(nb: Any) -> dict[str, Any]:
    return dict(nb.metadata.get("papermill", {}).get("parameters", {}))


@contextmanager
def _run_folder(given: dict[str, Any]) -> Iterator[list[int]]:
    """Hold the run folder that was given; SystemExit in two lines when that cannot be."""
    if not given.get("run_dir"):
        yield []
        return
    folder = located(given["run_dir"])
    if (folder / SUMS).exists():
        raise SystemExit(
            f"expected a run folder that is not sealed, found the record {shown(folder)}\n"
            "  next: papermill … -p run_dir ANOTHER"
        )
    with ExitStack() as stack:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            lock = stack.enter_context(hold.held(folder))
        except OSError as error:
            problem = unwritten(folder, error)
            raise SystemExit(f"{problem.message}\n  next: {problem.hint}") from None
        except KeyelabError as error:
            raise SystemExit(f"{error.message}\n  next: {error.hint}") from None
        yield [lock]


def _require_kernel(name: str) -> None:
    """Raise SystemExit in two lines, where jupyter_client would log its trace of forty."""
    try:
        KernelSpecManager().get_kernel_spec(name)
    except NoSuchKernel:
        found = ", ".join(sorted(KernelSpecManager().find_kernel_specs())) or "none"
        raise SystemExit(
            f"expected the kernel {name} that the notebook or -k names, found {found}\n"
            "  next: papermill … -k python3, or where there is none: pip install ipykernel"
        ) from None


def _why(error: BaseException) -> tuple[str, str]:
    if isinstance(error, DeadKernelError):
        return "failed", "dead-kernel"
    if isinstance(error, CellTimeoutError):
        return "failed", "timeout"
    if isinstance(error, KeyboardInterrupt):
        return "interrupted", "interrupted"
    return "failed", type(error).__name__


def _write_atomically() -> None:
    """Papermill's local files are written whole or not at all, and without secrets."""
    handler = papermill_io.get_handler("local")

    def write(content: str, path: str) -> None:
        folder = handler.cwd(None)  # the one way to read it is to swap it
        handler.cwd(folder)
        target = Path(folder or ".") / path
        if not target.parent.is_dir():
            raise FileNotFoundError(f"output folder {target.parent} doesn't exist.")
        write_text(target, redact(content))

    handler.write = write


@contextmanager
def _injected(names: list[str]) -> Iterator[None]:
    """Tell the kernel which parameters were given, so that the others come from params/."""
    before = os.environ.get(INJECTED)
    os.environ[INJECTED] = json.dumps(names)
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(INJECTED, None)
        else:
            os.environ[INJECTED] = before


@contextmanager
def _sigterm_interrupts() -> Iterator[None]:
    """SIGTERM ends the run as Ctrl-C does (only the main thread may set handlers)."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(number: int, frame: Any) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
