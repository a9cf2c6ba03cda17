"""What logs tell, as JSON and as lines for a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from keyelab.perf import explain
from keyelab.perf.explain import plain
from keyelab.perf.predict import Prediction, predict
from keyelab.perf.tables import Tables

SHOWN_TASKS, SHOWN_SERVERS = 12, 20
_COLUMNS = {  # of the table of tasks: name, width, digits
    "task": (6, 0), "state": (10, 0), "context_tokens": (8, 0), "cached_tokens": (7, 0),
    "prefill_tps": (9, 2), "images": (7, 0), "decode_tokens": (7, 0), "decode_tps": (9, 2),
    "decode_tps_logged": (9, 2), "queue_s": (8, 2), "beside": (7, 0),
}  # fmt: skip
_TITLES = ("task", "state", "context", "cached", "read t/s", "images", "answer", "write t/s",
           "printed", "queue s", "beside")  # fmt: skip


def as_json(tables: Tables, ask: tuple[int, int, int] | None = None) -> dict[str, Any]:
    """All of it; `ask` is (frames, answer tokens, question tokens) of a request to predict."""
    return {"schema": 1, "servers": [_server(tables, number, ask) for number in _numbers(tables)]}


def _numbers(tables: Tables) -> list[int]:
    return [int(number) for number in tables.servers.server]


def _server(tables: Tables, number: int, ask: tuple[int, int, int] | None) -> dict[str, Any]:
    own = explain.of(tables, number)
    return {
        **rows(own.servers)[0],
        "load": explain.load(own),
        "decode": explain.decode(own),
        "images": explain.images(own),
        "queueing": explain.queueing(own),
        "cache": explain.cache(own),
        "graphs": explain.graphs(own),
        "prediction": predict(own, *ask).as_json() if ask else None,
        "tasks": rows(own.tasks),
    }


def rows(frame: Any) -> list[dict[str, Any]]:
    """The rows of a frame as plain values, None for unknown."""
    return [{name: plain(value) for name, value in row.items()} for row in frame.to_dict("records")]


def lines(tables: Tables, ask: tuple[int, int, int] | None = None) -> Iterator[str]:
    """The summary; of many server runs and tasks the last ones."""
    numbers = _numbers(tables)
    if len(numbers) > SHOWN_SERVERS:
        yield f"{len(numbers)} server runs; the last {SHOWN_SERVERS}:"
    for number in numbers[-SHOWN_SERVERS:]:
        yield from _lines(explain.of(tables, number), ask)


def _lines(own: Tables, ask: tuple[int, int, int] | None) -> Iterator[str]:
    server = rows(own.servers)[0]
    build = "unknown" if server["build"] is None else f"b{server['build']}"
    slots = "unknown" if server["slots"] is None else server["slots"]
    name = f" ({server['source']})" if server["source"] else ""
    yield f"{server['file']}:{server['line']}{name}"
    context = _many(server["context_tokens"])
    yield f"  server    build {build}, slots {slots}, context {context} tokens"
    for number, part in enumerate(explain.load(own)):
        yield f"  {'' if number else 'load':8}{part['seconds']:9.2f} s  {part['part']}"
    yield "  tasks   " + " ".join(
        f"{title:>{width}}" for title, (width, _) in zip(_TITLES, _COLUMNS.values(), strict=True)
    )
    for row in rows(own.tasks.tail(SHOWN_TASKS)):
        yield " " * 10 + " ".join(
            f"{_cell(row[name], digits):>{width}}" for name, (width, digits) in _COLUMNS.items()
        )
    if len(own.tasks) > SHOWN_TASKS:
        yield f"          {len(own.tasks) - SHOWN_TASKS:,} earlier ones: --csv"
    yield from _decode(explain.decode(own))
    yield from _images(explain.images(own))
    yield _queue(explain.queueing(own))
    yield from _cache(explain.cache(own))
    graphs = explain.graphs(own)
    if graphs:
        told = "never" if graphs["never"] else f"{graphs['reused']:,} times"
        yield f"  graphs    reused {told} in {graphs['decode_steps']:,} steps of decoding"
    if ask:
        yield from _prediction(predict(own, *ask))
    if server["damaged_lines"]:
        yield f"  damaged   {server['damaged_lines']} lines left out"


def _queue(found: dict[str, Any]) -> str:
    waits = "waits unknown"
    if found["with_known_wait"]:
        waits = (
            f"waited {_s(found['median_wait_s'])} in the middle, {_s(found['longest_wait_s'])} at "
            f"most ({found['with_known_wait']} of {found['tasks']} known)"
        )
    return f"  queue     {waits}; {_many(found['ran_beside_others'])} ran beside others"


def _decode(found: dict[str, Any] | None) -> Iterator[str]:
    if found is None:
        yield "  decode    speed against depth unknown: too few windows or tasks that ran alone"
        return
    yield (
        f"  decode    {found['intercept_ms_per_token']:.4g} ms + "
        f"{found['slope_ms_per_token_of_depth']:.3g} ms per token of depth "
        f"({found['slope_low']:.3g} to {found['slope_high']:.3g}), residual "
        f"{found['residual_ms']:.3g} ms"
    )
    left_out = found["left_out_beside_others"]
    besides = f"; {left_out} beside another task left out" if left_out else ""
    besides += f" (with them {found['slope_with_shared']:.3g})" if left_out else ""
    yield (
        f"            from {found['n']} {found['basis']} at {found['depth_from_tokens']:,.0f} to "
        f"{found['depth_to_tokens']:,.0f} tokens, worth {found['worth_n']:.0f}{besides}"
    )
    if found["speed_halves_at_tokens"] is None:
        yield "            no depth can be told at which the speed halves"
    else:
        far = ", extrapolated" if found["extrapolated"] else ""
        yield (
            f"            speed halves at {found['speed_halves_at_tokens']:,.0f} tokens "
            f"({found['halves_low']:,.0f} to {found['halves_high']:,.0f}{far})"
        )
    for task in found["tasks_off_the_line"]:
        yield (
            f"            task {task['task']} is off this line: {task['ms_per_token']:.4g} ms at "
            f"{task['depth_tokens']:,.0f} tokens"
        )


def _images(found: dict[str, Any] | None) -> Iterator[str]:
    if found is None:
        yield "  images    none named (from b10019 on they are with -lv 4 only)"
        return
    apart = "encode and prefill in one" if found["encode_ms"] is None else (
        f"encode {_s(found['encode_ms'], 1000)}, prefill {_s(found['prefill_ms'], 1000)}"
    )  # fmt: skip
    yield (
        f"  images    {found['images']} of {_many(found['tokens_per_image'])} tokens, each "
        f"{_s(found['total_ms'], 1000)} in the middle, {_s(found['least_ms'], 1000)} to "
        f"{_s(found['most_ms'], 1000)} ({apart})"
    )
    if found["per_1000_tokens_ms"] is not None and found["per_1000_low"] > 0:
        yield (
            f"            {_s(found['per_1000_tokens_ms'], 1000)} more for 1,000 tokens before it "
            f"({_s(found['per_1000_low'], 1000)} to {_s(found['per_1000_high'], 1000)})"
        )


def _cache(found: dict[str, Any] | None) -> Iterator[str]:
    if found is None:
        return
    speed = f" at {found['mib_per_s']:,.0f} MiB/s" if found["mib_per_s"] else ""
    idle = f", idle slots {_s(found['idle_slots_ms'], 1000)}" if found["idle_slots_saved"] else ""
    yield (
        f"  cache     {found['updates']} updates took {_s(found['updates_ms'], 1000)}{idle}; "
        f"{found['saved_mib']:,.1f} MiB saved{speed}"
    )


def _prediction(told: Prediction) -> Iterator[str]:
    yield (
        f"  predicted {told.frames} frames, {told.answer_tokens:,} tokens of answer: "
        f"{_interval(told.total_s)} (images {_interval(told.images_s)}, "
        f"answer {_interval(told.decode_s)})"
    )
    for note in told.notes:
        yield f"            {note}"


def _interval(value: tuple[float, float | None, float | None] | None) -> str:
    if value is None:
        return "unknown"
    if value[1] is None or value[2] is None:
        return _s(value[0])
    return f"{_s(value[0])}, {_s(value[1])} to {_s(value[2])}"


def _s(value: float | None, parts: int = 1) -> str:
    if value is None:
        return "unknown"
    seconds = value / parts
    return f"{seconds:,.1f} s" if seconds >= 10 else (
        f"{seconds:.2f} s" if seconds >= 1 else f"{1000 * seconds:.3g} ms"
    )  # fmt: skip


def _many(value: float | None) -> str:
    return "unknown" if value is None else f"{value:,.0f}"


def _cell(value: Any, digits: int) -> str:
    if value is None:
        return "-"
    return value if isinstance(value, str) else f"{value:.{digits}f}"
