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
    """One request. None is not stated in the log; `marks` are (s, tokens decoded so far)."""

    id: int
    arrived_s: float | None = None
    launched_s: float | None = None
    last_seen_s: float = 0.0
    prompt_ms: float | None = None
    prompt_tokens: int | None = None
    decode_ms: float | None = None
    decode_tokens: int | None = None
    decode_tps_logged: float | None = None
    end_tokens: int | None = None
    truncated: bool = False
    cancelled: bool = False
    marks: list[tuple[float, int]] = field(default_factory=list)
    encodes: list[Encode] = field(default_factory=list)

    @property
    def state(self) -> str:
        """finished (its final timings were printed), cancelled or unfinished."""
        if self.cancelled:
            return "cancelled"
        return "unfinished" if self.decode_ms is None else "finished"

    @property
    def images(self) -> int:
        """Images encoded."""
        return sum(encode.images for encode in self.encodes)

    @property
    def context_tokens(self) -> int | None:
        """Tokens of the whole prompt, the part taken from the cache included."""
        if self.end_tokens is None or self.decode_tokens is None or self.truncated:
            return None
        return self.end_tokens - self.decode_tokens + 1

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
        """Prompt tokens per second; None for a cached prompt."""
        if self.cached_prompt or not self.prompt_ms or not self.prompt_tokens:
            return None
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
        if self.context_tokens is None or self.decode_tokens is None:
            return None
        return self.context_tokens + self.decode_tokens / 2


def overlapped(tasks: Iterable[Task]) -> set[int]:
    """Ids of the tasks that shared the server with another one: their rates are under load.

    An unfinished one runs beyond the end of the log.
    """
    spans = [
        (task.launched_s, math.inf if task.state == "unfinished" else task.last_seen_s, task.id)
        for task in tasks
        if task.launched_s is not None
    ]
    return {
        one[2]
        for one in spans
        for other in spans
        if one[2] != other[2] and one[0] < other[1] and other[0] < one[1]
    }
