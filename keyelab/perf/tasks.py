"""What one request did, as the server's log tells it: times in seconds or ms, counts in tokens.

Builds up to b10019 print a decode rate of n / t although t starts at the first token, so that n - 1
steps were timed; b10502 and later print (n - 1) / t. Both are kept: `decode_tps_logged` is the
printed number with its `basis`, `decode_tps` is (n - 1) / t for every build.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

Basis = Literal["n/t", "(n-1)/t"]


@dataclass(frozen=True)
class Mark:
    """A progress line of decoding: tokens so far and the printed rates (tokens per second)."""

    time_s: float | None
    decoded: int
    tps: float | None
    tps_3s: float | None


@dataclass(frozen=True)
class Window:
    """Decoding between two marks: tokens, seconds, and the context depth (tokens) at its end."""

    tokens: int
    seconds: float
    depth_tokens: int | None
    tps_logged: float | None

    @property
    def tps(self) -> float:
        """Tokens per second, recomputed from the log's time stamps."""
        return self.tokens / self.seconds


@dataclass
class Encode:
    """One batch of images going through the vision tower.

    `end_s` is where the next statement stands; `with_prefill` says that it holds the language
    model's share too, because the log's verbosity leaves out the line between the two.
    """

    start_s: float | None
    first_index: int
    chunks: int
    end_s: float | None = None
    tokens: int | None = None
    with_prefill: bool = False


@dataclass
class Task:
    """One request. None is not stated in the log."""

    id: int
    slot: int
    line: int
    arrived_s: float | None = None
    launched_s: float | None = None
    released_s: float | None = None
    last_seen_s: float | None = None
    prompt_ms: float | None = None
    prompt_tokens: int | None = None
    stated_prompt_tokens: int | None = None
    decode_ms: float | None = None
    decode_tokens: int | None = None
    decode_tps_logged: float | None = None
    total_ms: float | None = None
    end_tokens: int | None = None
    truncated: bool | None = None
    cancelled: bool = False
    one_token_evaluated: bool = False
    counts_steps: bool | None = None
    draft_accepted: int | None = None
    draft_generated: int | None = None
    marks: list[Mark] = field(default_factory=list)
    encodes: list[Encode] = field(default_factory=list)

    @property
    def state(self) -> Literal["finished", "cancelled", "unfinished"]:
        """Finished means that its final timings were printed."""
        if self.cancelled:
            return "cancelled"
        return "unfinished" if self.decode_ms is None else "finished"

    @property
    def context_tokens(self) -> int | None:
        """Tokens of the whole prompt, the part taken from the cache included."""
        if self.stated_prompt_tokens is not None:
            return self.stated_prompt_tokens
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
        """True when most of the prompt came from the cache: its rate is no prefill speed."""
        cached = self.cached_tokens or 0
        return self.one_token_evaluated or cached > (self.prompt_tokens or 0)

    @property
    def prefill_tps(self) -> float | None:
        """Prompt tokens per second; None for a cached prompt."""
        if self.cached_prompt or not self.prompt_ms or not self.prompt_tokens:
            return None
        return 1000 * self.prompt_tokens / self.prompt_ms

    @property
    def decode_tps(self) -> float | None:
        """Decode steps per second: (n - 1) / t, for every build."""
        if not self.decode_ms or not self.decode_tokens or self.decode_tokens < 2:
            return None
        return 1000 * (self.decode_tokens - 1) / self.decode_ms

    @property
    def basis(self) -> Basis | None:
        """What the printed rate counts, told by the numbers, else by the label n_decoded, n_gen."""
        rate, ms, n = self.decode_tps_logged, self.decode_ms, self.decode_tokens
        if rate is None or not ms or not n:
            return None
        slack = 0.006 + rate * 0.006 / ms  # both numbers are printed with two decimals
        tokens, steps = (abs(1000 * count / ms - rate) <= slack for count in (n, n - 1))
        if tokens == steps:
            label: dict[bool | None, Basis] = {True: "(n-1)/t", False: "n/t"}
            return label.get(self.counts_steps) if tokens else None
        return "n/t" if tokens else "(n-1)/t"

    @property
    def windows(self) -> list[Window]:
        """Decoding between consecutive marks."""
        found = []
        for i in range(1, len(self.marks)):
            before, after = self.marks[i - 1], self.marks[i]
            if before.time_s is None or after.time_s is None:
                continue
            tokens, seconds = after.decoded - before.decoded, after.time_s - before.time_s
            if tokens <= 0 or seconds <= 0:
                continue
            depth = None if self.context_tokens is None else self.context_tokens + after.decoded
            found.append(Window(tokens, seconds, depth, after.tps_3s))
        return found

    @property
    def depth_tokens(self) -> float | None:
        """Mean context depth while decoding."""
        if self.context_tokens is None or self.decode_tokens is None:
            return None
        return self.context_tokens + self.decode_tokens / 2

    @property
    def images(self) -> int:
        """Image chunks encoded."""
        return sum(encode.chunks for encode in self.encodes)

    @property
    def queue_ms(self) -> float | None:
        """From the request's arrival to its slot."""
        if self.arrived_s is None or self.launched_s is None:
            return None
        return max(0.0, 1000 * (self.launched_s - self.arrived_s))


def overlapped(tasks: Iterable[Task]) -> set[int]:
    """Ids of the tasks that shared the server with another one: their rates are under load."""
    spans = []
    for task in tasks:
        start = task.launched_s
        end = task.released_s if task.released_s is not None else task.last_seen_s
        if start is not None and end is not None:
            spans.append((start, end, task.id))
    return {
        one[2]
        for one in spans
        for other in spans
        if one[2] != other[2] and one[0] < other[1] and other[0] < one[1]
    }


def weighted_decode_tps(tasks: Iterable[Task]) -> float | None:
    """Tokens over time of the finished tasks together, as printed (never a mean of rates)."""
    done = [t for t in tasks if t.state == "finished" and t.decode_ms and t.decode_tokens]
    spent_ms = sum(t.decode_ms or 0.0 for t in done)
    return 1000 * sum(t.decode_tokens or 0 for t in done) / spent_ms if spent_ms else None
