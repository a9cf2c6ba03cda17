"""The article's own server log (eight K100_AI, Keye-VL-2.0-30B-A3B in BF16), as a yardstick."""

from __future__ import annotations

from pathlib import Path

from keyelab.perf.summary import Summary, read_summary

LOG = Path(__file__).parent / "data" / "article_server.log"
LABEL = "the article"
_APART = 4  # deepest over shallowest, before a difference is one of depth


def article_summary() -> Summary:
    """The article's run: three finished tasks, of which the last is the video, and a cancelled."""
    return read_summary(LOG)


def sentence(summary: Summary) -> str:
    """What a run's own numbers say about decode speed at its shallowest and deepest task.

    Rates as the log prints them, so that a reader finds them there again.
    """
    known = [
        (task.depth_tokens, task.decode_tps_logged, task.id)
        for task in summary.finished
        if task.depth_tokens and task.decode_tps_logged and not task.cached_prompt
    ]
    if not known or max(known)[0] < _APART * min(known)[0]:
        return "Its requests stand at about one depth: it says nothing about decode against depth."
    (low, fast, first), (high, slow, last) = min(known), max(known)
    change = fast / slow
    told = f"slower by a factor of {change:.1f}" if change >= 1.1 else "no slower"
    return (
        f"It decodes {fast:,.2f} tokens/s at a mean depth of {low:,.0f} tokens (task {first}) "
        f"and {slow:,.2f} at {high:,.0f} (task {last}): {told}."
    )
