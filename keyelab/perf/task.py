"""What one request did, as the server's log tells it: times in seconds or ms, counts in tokens."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field


@dataclass
class Encode:
    """Images going through the vision tower, until the next statement of the log.

    `with_prefill` says that the time holds the language model's share too: at low verbosity the
    log leaves out the line between the two.
    """

    start_s: float
    images: int
    end_s: float | None = None
    with_prefill: bool = False


@dataclass
class Task:
    """One request. None is not stated in the log; `marks` are (s, tokens decoded so far).

    `stated_tokens` is the whole prompt as the log gives it, `prompt_read` the part of it (0 to 1)
    that is in the context, `decode_tps_logged` the last rate printed, and `prompt_line` and
    `decode_line` are the lines of the log that the figures stand on.
    """

    id: int
    first_seen_s: float | None = None
    arrived_s: float | None = None
    launched_s: float | None = None
    last_seen_s: float = 0.0
    prompt_ms: float | None = None
    prompt_tokens: int | None = None
    stated_tokens: int | None = None
    prompt_read: float | None = None
    decode_ms: float | None = None
    decode_tokens: int | None = None
    decode_tps_logged: float | None = None
    end_tokens: int | None = None
    drafts_accepted: int | None = None
    drafts: int | None = None
    prompt_line: int | None = field(default=None, compare=False)
    decode_line: int | None = field(default=None, compare=False)
    truncated: bool = False
    cancelled: bool = False
    marks: list[tuple[float, int]] = field(default_factory=list)
    encodes: list[Encode] = field(default_factory=list)

    @property
    def state(self) -> str:
        """finished (with final timings), cancelled, stopped (ended without them) or unfinished."""
        if self.cancelled:
            return "cancelled"
        if self.decode_ms is not None:
            return "finished"
        return "unfinished" if self.end_tokens is None else "stopped"

    @property
    def written(self) -> int | None:
        """Tokens of the answer; without an end, those that the log last counted."""
        return (
            self.marks[-1][1] if self.decode_tokens is None and self.marks else self.decode_tokens
        )

    @property
    def progress(self) -> str:
        """How far it is known to have come."""
        if self.written is not None:
            return f"{self.written} tokens at {self.decode_tps_logged or 0:.2f} tokens/s"
        if self.prompt_read is not None:
            return f"{self.prompt_read:.0%} of the prompt read"
        return "progress unknown"

    @property
    def images(self) -> int:
        """Images encoded."""
        return sum(encode.images for encode in self.encodes)

    @property
    def context_tokens(self) -> int | None:
        """Tokens of the whole prompt, the part taken from the cache included."""
        if self.stated_tokens is not None:
            return self.stated_tokens
        if self.end_tokens is None or self.decode_tokens is None or self.truncated:
            return None
        return self.end_tokens - self.decode_tokens + 1

    @property
    def least_depth_tokens(self) -> float:
        """Mean context depth while decoding, or what it is at least: evaluated tokens only."""
        return (self.context_tokens or self.prompt_tokens or 0) + (self.decode_tokens or 0) / 2

    @property
    def cached_tokens(self) -> int | None:
        """Tokens of the prompt that were not evaluated because the cache held them."""
        if self.context_tokens is None or self.prompt_tokens is None:
            return None
        return max(0, self.context_tokens - self.prompt_tokens)

    @property
    def cached_prompt(self) -> bool:
        """Whether most of the prompt came from the cache: its rate is no prefill speed."""
        return (self.cached_tokens or 0) > (self.prompt_tokens or 0)

    @property
    def prefill_tps(self) -> float | None:
        """Prompt tokens per second; None for a cached prompt, and for one token: that is a step."""
        if self.cached_prompt or not self.prompt_ms or (self.prompt_tokens or 0) < 2:
            return None
        assert self.prompt_tokens
        return 1000 * self.prompt_tokens / self.prompt_ms

    @property
    def decode_tps(self) -> float | None:
        """(n - 1) / t for every build: the clock starts at the first token.

        Builds up to b10019 print n / t, which is kept in `decode_tps_logged`.
        """
        if not self.decode_ms or not self.decode_tokens or self.decode_tokens < 2:
            return None
        return 1000 * (self.decode_tokens - 1) / self.decode_ms

    @property
    def depth_tokens(self) -> float | None:
        """Mean context depth while decoding."""
        if self.context_tokens is None or self.decode_tokens is None or self.truncated:
            return None
        return self.least_depth_tokens

    @property
    def draft_acceptance(self) -> float | None:
        """Accepted over drafted tokens of speculative decoding (0 to 1)."""
        return (self.drafts_accepted or 0) / self.drafts if self.drafts else None


def overlapped(tasks: Iterable[Task]) -> set[int]:
    """Ids of the tasks that shared the server with another one: their rates are under load.

    An unfinished one runs beyond the end of the log; one whose start is not in the log runs from
    its first line at least.
    """
    spans = [
        (start, math.inf if task.state == "unfinished" else task.last_seen_s, task.id)
        for task in tasks
        for start in (task.first_seen_s if task.launched_s is None else task.launched_s,)
        if start is not None
    ]
    return {
        one[2]
        for one in spans
        for other in spans
        if one[2] != other[2] and one[0] < other[1] and other[0] < one[1]
    }
