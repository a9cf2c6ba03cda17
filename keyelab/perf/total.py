"""Tasks taken together, as far as their speeds can be."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from keyelab.perf.server import ServerLog
from keyelab.perf.table import APART, images
from keyelab.perf.task import Task


def totals(log: ServerLog) -> list[dict[str, Any]]:
    """One row a kind of finished task: all their tokens over all their seconds (n / t).

    It is the speed that a request got, not what the server gave in all. Requests with images
    stand apart from those without, and so do depths more than a factor of 4 apart.
    """
    groups: list[list[Task]] = []
    for task in sorted(log.finished, key=lambda one: (one.images > 0, one.least_depth_tokens)):
        first = groups[-1][0] if groups else task
        near = task.least_depth_tokens <= APART * first.least_depth_tokens
        if groups and near and (first.images > 0) == (task.images > 0):
            groups[-1].append(task)
        else:
            groups.append([task])
    return [
        {
            "tasks": ", ".join(map(str, sorted(task.id for task in group))),
            "images": images(log, *group),
            "depth_at_least_tokens": " to ".join(
                f"{task.least_depth_tokens:.0f}" for task in (group[0], group[-1])
            ),
            **_speed("decode", group),
            **_speed("prompt", [task for task in group if task.prefill_tps is not None]),
        }
        for group in groups
    ]


def _speed(part: str, tasks: Sequence[Task]) -> dict[str, float | None]:
    tokens = sum(getattr(task, f"{part}_tokens") for task in tasks)
    seconds = sum(getattr(task, f"{part}_ms") for task in tasks) / 1000
    return {
        f"{part}_tokens": tokens if tasks else None,
        f"{part}_s": seconds if tasks else None,
        f"{part}_tokens_per_s": tokens / seconds if seconds else None,
    }
