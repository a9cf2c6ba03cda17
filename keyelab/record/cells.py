"""What the cells of an executed notebook tell, against themselves and against the phase's claim.

Three writers left marks in it: papermill (status and clock of each cell), nbclient (when the
kernel answered) and keyelab's engine (the outcome). Stock papermill calls cells completed that a
dead kernel, a timeout or an interruption kept from ending; the kernel's answer is what they lack.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from keyelab.files import redact
from keyelab.record.cards import cell as shown_cell
from keyelab.record.run import PhaseRecord

RAN = ("passed", "warned", "skipped")
OUTCOMES = {**dict.fromkeys(RAN, "completed"), "failed": "failed", "interrupted": "interrupted"}
_SLACK_S = 2.0


def contradictions(
    notebook: dict[str, Any], phase: PhaseRecord, broken_off: bool = False
) -> list[str]:
    """What is wrong with a phase's notebook, a sentence each.

    The last notebook of a run that was `broken_off` may have all its answers and no end.
    """
    if phase.status == "not run":
        return []  # it was begun, and the run was killed before it could tell
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    found = [f"cell {cell.get('id')}: {why}" for cell in code for why in _of_cell(cell)]
    states = [_status(cell) for cell in code]
    if "completed" in states[_first(states, "pending") :]:
        found.append("a cell completed after one that never began")
    if phase.status in RAN:
        unfinished = sum(not _finished(cell) for cell in code)
        if unfinished:
            found.append(f"{unfinished} of {len(code)} cells never finished")
        if any(_failed(cell) for cell in code):
            found.append("a cell failed")
        found += _unsaid(notebook, phase)
    elif phase.status == "failed" and all(_finished(c) and not _failed(c) for c in code):
        found.append("no cell failed")
    whole = notebook["metadata"]["papermill"]
    if not (broken_off and whole.get("end_time") is None):
        found += [*_outcome(notebook, phase), *_clock(notebook, phase, broken_off)]
    return found


def text(cell: dict[str, Any]) -> str:
    """The source of a cell."""
    source = cell["source"]
    return source if isinstance(source, str) else "".join(source)


def seconds(stamp: str) -> float:
    """Seconds since 1970 of an ISO-8601 time."""
    return datetime.fromisoformat(stamp.replace("Z", "+00:00")).timestamp()


def _of_cell(cell: dict[str, Any]) -> Iterator[str]:
    state, answered = _status(cell), _answered(cell)
    if not text(cell).strip():
        return
    if state == "completed" and not answered:
        yield "papermill says completed, but the kernel never answered"
    if state == "completed" and _errors(cell):
        yield "papermill says completed, but it shows an error"
    if state in ("pending", "None") and (answered or cell["outputs"]):
        yield f"papermill says {state}, but it ran"
    if state not in ("completed", "failed", "pending", "running", "None"):
        yield f"papermill says {state}"


def _outcome(notebook: dict[str, Any], phase: PhaseRecord) -> Iterator[str]:
    told = notebook["metadata"].get("keyelab", {})
    wanted, exception = (
        OUTCOMES.get(phase.status),
        notebook["metadata"]["papermill"].get("exception"),
    )
    if wanted is None or (not told and phase.status not in RAN):
        return  # it was killed before it could tell
    if phase.status == "interrupted" and told.get("outcome") == "completed":
        return  # just after its end
    if told.get("outcome") != wanted:
        how = f"is {told['outcome']}" if told else "is missing: another engine ran it"
        yield f"its outcome {how}, run.json says {phase.status}"
    if bool(exception) != (wanted != "completed"):
        yield f"papermill's exception is {exception}, run.json says {phase.status}"
    if phase.failure and told:
        cell, kind = told.get("failed_cell", ""), told.get("reason")
        if phase.failure.cell != cell or phase.failure.kind not in (kind, "check"):
            yield f"it ended by {kind} in cell {cell}, run.json says {phase.failure.kind} in " + (
                f"cell {phase.failure.cell}"
            )


def _clock(notebook: dict[str, Any], phase: PhaseRecord, broken_off: bool) -> Iterator[str]:
    """The times of a phase that came to its end: of its cells, the notebook and run.json."""
    if phase.status not in RAN:
        return
    whole = notebook["metadata"]["papermill"]
    if not (whole["start_time"] and whole["end_time"]):
        yield "papermill never ended it: it was killed"
        return
    start, end = seconds(whole["start_time"]), seconds(whole["end_time"])
    last = start
    for cell in notebook["cells"]:
        mark = cell["metadata"].get("papermill", {})
        if not (mark.get("start_time") and mark.get("end_time")):
            continue
        begun, ended = seconds(mark["start_time"]), seconds(mark["end_time"])
        reply = cell["metadata"].get("execution", {}).get("shell.execute_reply")
        inside = reply is None or begun - _SLACK_S <= seconds(reply) <= ended + _SLACK_S
        if not (last - _SLACK_S <= begun <= ended + _SLACK_S and inside):
            yield f"cell {cell.get('id')}: its times are not in order"
        last = ended
    if last > end + _SLACK_S or abs(end - start - whole["duration"]) > _SLACK_S:
        yield "the notebook's times are not those of its cells"
    if phase.started and seconds(phase.started) > start + _SLACK_S:
        yield f"run.json says it started at {phase.started}, the notebook at {whole['start_time']}"
    took = phase.duration_s
    if broken_off:
        return  # the phase's time is what its facts tell
    if took is None or abs(took - whole["duration"]) > max(5.0, 0.05 * whole["duration"]):
        yield f"run.json says it took {took} s, the notebook {whole['duration']} s"


def _unsaid(notebook: dict[str, Any], phase: PhaseRecord) -> Iterator[str]:
    """Verdicts of run.json that the notebook's own verdict card does not show."""
    said = "\n".join(_outputs(notebook))
    stem = phase.notebook.removesuffix(".ipynb")
    if f"{stem}: {phase.status}" not in said:
        yield f"it nowhere says {stem}: {phase.status}"
    for item in phase.checks:
        wanted = [redact(shown_cell(item.name)), redact(shown_cell(item.found))]
        if not all(part in said for part in wanted if "[redacted]" not in part):
            yield f"it does not show the check {item.name!r} as run.json does"


def _outputs(notebook: dict[str, Any]) -> Iterator[str]:
    for cell in notebook["cells"]:
        for output in cell.get("outputs", []):
            for value in (*output.get("data", {}).values(), output.get("text", "")):
                yield value if isinstance(value, str) else "".join(map(str, value))


def _first(states: list[str], wanted: str) -> int:
    return states.index(wanted) if wanted in states else len(states)


def _status(cell: dict[str, Any]) -> str:
    return str(cell["metadata"].get("papermill", {}).get("status"))


def _answered(cell: dict[str, Any]) -> bool:
    return "shell.execute_reply" in cell["metadata"].get("execution", {})


def _errors(cell: dict[str, Any]) -> bool:
    return any(output.get("output_type") == "error" for output in cell["outputs"])


def _finished(cell: dict[str, Any]) -> bool:
    return not text(cell).strip() or (_answered(cell) and _status(cell) == "completed")


def _failed(cell: dict[str, Any]) -> bool:
    return _status(cell) == "failed" or _errors(cell)
