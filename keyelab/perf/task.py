"""What one request did, as the server's log tells it: times in seconds or ms, counts in tokens."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class Encode:
    """Images going through the vision tower, until the next statement of the log.

    `with_prefill` says that the time holds the language model's share too: at low verbosity the
    log leaves out the line between the two. `index` is the place of the first one in the prompt.
    """

    start_s: float | None
    images: int
    end_s: float | None = None
    with_prefill: bool = False
    index: int | None = None
    stated_tokens: int | None = None
    prefilled_s: float | None = None
    stated_encode_ms: float | None = None
    stated_prefill_ms: float | None = None
    stated_total_ms: float | None = None
    line: int | None = field(default=None, compare=False)

    @property
    def encode_ms(self) -> float | None:
        """Vision tower alone; by the log's stamps, else as stated in whole ms."""
        if self.with_prefill:
            return self.stated_encode_ms
        return self._ms() or self.stated_encode_ms

    @property
    def prefill_ms(self) -> float | None:
        """Language model alone."""
        if self.with_prefill or self.end_s is None or self.prefilled_s is None:
            return self.stated_prefill_ms
        return 1000 * (self.prefilled_s - self.end_s)

    @property
    def total_ms(self) -> float | None:
        """Both."""
        parts = self.encode_ms, self.prefill_ms
        if self.with_prefill:
            return self.stated_total_ms or self._ms()
        return None if None in parts else sum(parts)  # type: ignore[arg-type]

    def _ms(self) -> float | None:
        known = self.end_s is not None and self.start_s is not None
        return 1000 * (self.end_s - self.start_s) if known else None  # type: ignore[operator]


@dataclass(slots=True)
class Task:
    """One request. None is not stated in the log.

    `marks` are (s, tokens decoded so far, printed rate, printed rate of the last 3 s).
    `stated_tokens` is the whole prompt as the log gives it, `first_cached` the part of it that was
    there already, `decode_tps_logged` the last rate printed, `timed_s` when the final timings were
    printed, `graphs_reused` the server's count until then.
    """

    id: int
    first_seen_s: float | None = None
    arrived_s: float | None = None
    launched_s: float | None = None
    last_seen_s: float | None = None
    prompt_ms: float | None = None
    prompt_tokens: int | None = None
    stated_tokens: int | None = None
    first_cached: int | None = None
    decode_ms: float | None = None
    decode_tokens: int | None = None
    decode_tps_logged: float | None = None
    timed_s: float | None = None
    end_tokens: int | None = None
    drafts_accepted: int | None = None
    drafts: int | None = None
    graphs_reused: int | None = None
    slot: int | None = None
    line: int | None = field(default=None, compare=False)
    launched: bool = False
    truncated: bool = False
    cancelled: bool = False
    marks: list[tuple[float | None, int, float, float | None]] = field(default_factory=list)
    encodes: list[Encode] = field(default_factory=list)

    def settle(self) -> None:
        """At its end: the last images were through when the prompt was."""
        last = self.encodes[-1] if self.encodes else None
        begun_s = self.decode_start_s
        if last is None or begun_s is None or last.end_s is not None:
            return
        if last.start_s is not None and last.start_s < begun_s:
            last.end_s, last.with_prefill = begun_s, True

    @property
    def decode_start_s(self) -> float | None:
        """When the first token of the answer was there (s)."""
        if self.timed_s is None or self.decode_ms is None:
            return None
        return self.timed_s - self.decode_ms / 1000

    @property
    def queue_s(self) -> float | None:
        """From its arrival to the slot that takes it up."""
        if self.arrived_s is None or self.launched_s is None:
            return None
        return self.launched_s - self.arrived_s

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
    def images(self) -> int:
        """Images encoded."""
        return sum(encode.images for encode in self.encodes)

    @property
    def context_tokens(self) -> int | None:
        """Tokens of the whole prompt, the part taken from the cache included."""
        if self.stated_tokens is not None:
            return self.stated_tokens
        if self.first_cached is not None and self.prompt_tokens is not None:
            return self.first_cached + self.prompt_tokens
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
    def rate_basis(self) -> str | None:
        """How the build counts: tokens over time, or steps over time from b10502 on."""
        logged, n, ms = self.decode_tps_logged, self.decode_tokens, self.decode_ms
        if not logged or not ms or not n or n < 2:
            return None
        off = {"n/t": abs(1000 * n / ms - logged), "(n-1)/t": abs(1000 * (n - 1) / ms - logged)}
        best = min(off, key=lambda basis: off[basis])
        printed = 0.006 + 0.006 * logged / ms  # both are printed with two decimals
        return best if off[best] <= printed < max(off.values()) else None

    def samples(self) -> Iterator[tuple[float | None, ...]]:
        """(s, tokens, tokens of the window, their mean depth, ms per token, printed rates).

        A window goes from one progress line to the next; by the log's own stamps, or by the printed
        rate of the window where there are none.
        """
        base = None if self.truncated else self.context_tokens
        before_s, before = None, None
        for time_s, tokens, tps, window_tps in self.marks:
            width = ms = depth = None
            if before is not None and tokens > before:
                width = tokens - before
                depth = None if base is None else base + (before + tokens) / 2
                if time_s is not None and before_s is not None and time_s > before_s:
                    ms = 1000 * (time_s - before_s) / width
                elif time_s is None and window_tps:
                    ms = 1000 / window_tps
            yield time_s, tokens, width, depth, ms, tps, window_tps
            before_s, before = time_s, tokens

    def chunks(self) -> Iterator[tuple[Encode, int | None, str | None]]:
        """Its encodings of images with their tokens and how these are known."""
        places = [encode.index for encode in self.encodes]
        steps = [
            None if one is None or other is None else other - one
            for one, other in itertools.pairwise(places)
        ]
        same = steps[0] if len(steps) > 1 and len(set(steps)) == 1 else None
        for encode, step in zip(self.encodes, [*steps, None], strict=False):
            if encode.stated_tokens is not None:
                yield encode, encode.stated_tokens, "stated"
            elif step is not None and step > 0:
                yield encode, step, "spacing"
            else:
                yield encode, same, "assumed" if same else None

    @property
    def depth_tokens(self) -> float | None:
        """Mean context depth while decoding."""
        if self.context_tokens is None or self.decode_tokens is None or self.truncated:
            return None
        return self.context_tokens + self.decode_tokens / 2


def beside(starts_s: Any, ends_s: Any, other_starts_s: Any, other_ends_s: Any) -> Any:
    """How many of the other spans share some time with each span (numpy array of int)."""
    import numpy as np

    begun = np.searchsorted(np.sort(other_starts_s), ends_s, side="left")
    over = np.searchsorted(np.sort(other_ends_s), starts_s, side="right")
    return begun - over
