"""Whether a log is whole, and whether client and server tell the same story of one request."""

from __future__ import annotations

from typing import Any

from keyelab.checks import Check, check
from keyelab.facts import VideoFacts
from keyelab.perf.server import ServerLog
from keyelab.perf.task import Task

_PRINTED_MS = 0.006  # the log prints hundredths


def find_task(log: ServerLog, timings: dict[str, Any]) -> Task | None:
    """The last task that the server's `timings` of a response fit (tokens equal, ms as printed)."""
    for task in reversed(log.finished):
        tokens = (task.prompt_tokens, task.decode_tokens)
        printed = (task.prompt_ms, task.decode_ms)
        stated = (timings.get("prompt_ms"), timings.get("predicted_ms"))
        if tokens == (timings.get("prompt_n"), timings.get("predicted_n")) and all(
            one is not None and other is not None and abs(one - other) <= _PRINTED_MS
            for one, other in zip(stated, printed, strict=True)
        ):
            return task
    return None


def main_task(log: ServerLog) -> Task | None:
    """The request that a log is about: of the finished ones, the one with the longest prompt."""
    done = [task for task in log.finished if not task.cached_prompt]
    return max(
        done or log.finished,
        key=lambda task: task.context_tokens or task.prompt_tokens or 0,
        default=None,
    )


def log_checks(log: ServerLog) -> list[Check]:
    """Whether the log can be trusted."""
    cut = [str(task.id) for task in log.tasks.values() if task.truncated]
    going = [task for task in log.tasks.values() if task.state == "unfinished"]
    damaged = [*map(str, log.damaged[:5]), "…"][: len(log.damaged)]
    plain = "nothing against it"
    doubts = [
        (
            "context kept whole",
            f"truncated = 1 in task {', '.join(cut)}" if cut else "",
            "raise serve.context_tokens",
        ),
        (
            "every task has an end",
            "; ".join(f"task {task.id} unfinished, {task.progress}" for task in going),
            "the server was still at it, or died: see the end of its log",
        ),
        (
            "no damaged line",
            f"{len(log.damaged)} left out: line {', '.join(damaged)}" if damaged else "",
            "figures may be missing: look at a line with sed -n 'NUMBERp'",
        ),
    ]
    return [
        check(
            "time of readiness",
            None if log.ready_s is None else True,
            expected="'model loaded' or 'listening' in the log",
            found="unknown" if log.ready_s is None else f"{log.ready_s:.2f} s after start",
            remedy="the log begins later than the server: take the whole file",
        ),
        check(
            "finished tasks",
            bool(log.finished),
            expected="at least 1",
            found=str(len(log.finished)),
            remedy="ask the server something first: keyelab run --from video_test",
        ),
        *(
            check(name, not found, expected=plain, found=found or plain, remedy=remedy, warn=True)
            for name, found, remedy in doubts
        ),
    ]


def client_checks(task: Task | None, video: VideoFacts) -> list[Check]:
    """Whether client and log tell the same story of the question of 07_video_test."""
    server_ms = sum(video.timings.get(name, 0.0) for name in ("prompt_ms", "predicted_ms"))
    overhead_ms = 1000 * video.total_s - server_ms
    known = bool(video.timings)
    return [
        check(
            "the video request is in the log",
            task is not None if known else None,
            expected="a task with the tokens and ms of the client's response",
            found=f"task {task.id}" if task else "none",
            remedy="the log is cut or another server's: compare perf_analysis.log with 06_serve",
        ),
        check(
            "client's clock and server's agree",
            0 <= overhead_ms <= max(1000.0, 0.2 * server_ms) if known else None,
            expected="the client waits a little longer than the server works",
            found=f"{overhead_ms:.1f} ms more than {server_ms:.1f} ms" if known else "no timings",
            remedy="more: queueing, a slow network or large frames; less: another request",
            warn=True,
        ),
    ]
