"""The article's choice of frames, kept to show what it loses."""

from __future__ import annotations

import math
from typing import Any


def article_indices(candidates: int, max_frames: int) -> list[int]:
    """Positions among `candidates` that the article keeps: every (candidates // max)-th, cut."""
    step = max(1, candidates // max_frames)
    return list(range(0, candidates, step))[:max_frames]


def reach(kept: list[int], candidates: int) -> float:
    """Where the last kept frame stands, as a share (0 to 1) of the video."""
    return (kept[-1] + 0.5) / candidates if kept else 0.0


def comparison(max_frames: int, candidates: tuple[int, ...] = (10, 11, 19, 29, 100)) -> Any:
    """Table rows: how far into the video the article's last frame and ours stand."""
    rows = []
    for count in candidates:
        kept = article_indices(count, max_frames)
        ours = math.floor((max_frames - 0.5) * count / max_frames)
        rows.append(
            {
                "candidates": count,
                "most sent": max_frames,
                "article keeps": f"{kept[0]} … {kept[-1]}",
                "article's last frame at": f"{reach(kept, count):.0%}",
                "last frame at, by time": f"{reach([ours], count):.0%}",
            }
        )
    return rows
