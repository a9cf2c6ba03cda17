"""Whether a log is whole, and whether client and server tell the same story of one request."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from keyelab.checks import Check, check
from keyelab.facts import VideoFacts
from keyelab.perf.depth import agreement
from keyelab.perf.requests import Row, finished
from keyelab.perf.requests import rows as request_rows
from keyelab.perf.summary import rows as plain_rows
from keyelab.perf.tables import Tables

_PRINTED_MS = 0.006  # the log prints hundredths


def find_task(rows: Sequence[Row], timings: dict[str, Any]) -> Row | None:
    """The last request that the server's `timings` of a response fit (tokens equal, ms as printed).

    `rows` are those of `requests.rows`.
    """
    for row in reversed(finished(rows)):
        tokens = (row["prompt_tokens"], row["decode_tokens"])
        printed = (row["prompt_ms"], row["decode_ms"])
        stated = (timings.get("prompt_ms"), timings.get("predicted_ms"))
        if tokens == (timings.get("prompt_n"), timings.get("predicted_n")) and all(
            one is not None and other is not None and abs(one - other) <= _PRINTED_MS
            for one, other in zip(stated, printed, strict=True)
        ):
            return row
    return None


def log_checks(own: Tables) -> list[Check]:
    """Whether the log of one server run can be trusted."""
    server, rows = plain_rows(own.servers)[0], request_rows(own)
    cut = [str(row["task"]) for row in rows if "context was cut" in row["note"]]
    going = [row for row in rows if row["state"] == "unfinished"]
    damaged = server["damaged_lines"]
    plain = "nothing against it"
    doubts = [
        (
            "context kept whole",
            f"truncated = 1 in task {', '.join(cut)}" if cut else "",
            "raise serve.context_tokens",
        ),
        (
            "every task has an end",
            "; ".join(f"task {row['task']} {row['note']}" for row in going),
            "the server was still at it, or died: see the end of its log",
        ),
        (
            "no damaged line",
            f"{damaged} left out" if damaged else "",
            "figures may be missing: the log was cut, or two programs wrote into it",
        ),
    ]
    ready_s, done = server["ready_s"], len(finished(rows))
    return [
        check(
            "time of readiness",
            None if ready_s is None else True,
            expected="'model loaded' or 'listening' in the log",
            found="unknown" if ready_s is None else f"{ready_s:.2f} s after start",
            remedy="the log begins later than the server: take the whole file",
        ),
        check(
            "finished tasks",
            done > 0,
            expected="at least 1",
            found=str(done),
            remedy="ask the server something first: keyelab run --from video_test",
        ),
        *(
            check(name, not found, expected=plain, found=found or plain, remedy=remedy, warn=True)
            for name, found, remedy in doubts
        ),
    ]


def client_checks(task: Row | None, video: VideoFacts) -> list[Check]:
    """Whether client and log tell the same story of the question of 07_video_test."""
    server_ms = sum(video.timings.get(name, 0.0) for name in ("prompt_ms", "predicted_ms"))
    overhead_ms = 1000 * video.total_s - server_ms
    known = bool(video.timings)
    return [
        check(
            "the video request is in the log",
            task is not None if known else None,
            expected="a task with the tokens and ms of the client's response",
            found=f"task {task['task']}" if task else "none",
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


def sweep_checks(measured: Sequence[Row], load: Sequence[Row]) -> list[Check]:
    """Whether both ways of a depth sweep agree and `load.sweep` was answered."""
    failed = [row for row in load if row["error"]]
    pair = agreement(measured)
    return [
        check(
            "every request under load is answered",
            not failed,
            expected=f"{len(load)} answers",
            found=f"{len(failed)} failed: {failed[0]['error']}" if failed else f"{len(load)}",
            remedy="the server's log says why; lower perf_analysis.sweep_clients",
        ),
        check(
            "llama-bench and HTTP agree",
            None if pair is None else 0.5 < pair[1] < 2,
            expected="decoding within a factor of two",
            found=f"HTTP takes {pair[1]:.2f} times as long a token at {pair[0]:,} tokens, at best"
            if pair
            else "no depth in common",
            remedy="other work on this machine, or time in the server: measure again, idle",
            warn=True,
        ),
    ]
