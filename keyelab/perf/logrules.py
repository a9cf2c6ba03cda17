"""Rules that need no more than a log; what else is known makes their words more exact."""

from __future__ import annotations

from keyelab.perf import explain
from keyelab.perf.case import Case, Finding


def depth_cost(case: Case) -> Finding | None:
    """Decoding that takes half as long again at the depths that were used."""
    found = explain.decode(case.own)
    if not found or found["slope_low"] <= 0 or found["intercept_ms_per_token"] <= 0:
        return None
    slope, deepest = found["slope_ms_per_token_of_depth"], found["depth_to_tokens"]
    extra = slope * deepest
    share = extra / (extra + found["intercept_ms_per_token"])
    if share < 1 / 3:
        return None
    attention = case.server.flash_attention if case.server else None
    state = {None: "unknown", True: "on", False: "off"}[attention]
    limit = ""
    if case.shape and case.shape.state_bytes:
        limit = f"; the state itself is {case.shape.state_bytes / 1024:,.0f} KiB a token"
    return Finding(
        "decoding slows down with depth",
        f"{1000 * slope:.3g} ms more per 1,000 tokens "
        f"({1000 * found['slope_low']:.3g} to {1000 * found['slope_high']:.3g}), flash attention "
        f"{state}{limit}",
        f"{extra:.3g} ms of each token at {deepest:,.0f} tokens, {100 * share:.0f} %",
        "llama-bench -fa 0,1 -d 0,4096,8192: if both grow alike, another operation grows with the "
        "context (GGML_SCHED_DEBUG=2)",
        (
            "serve.flash_attention: on, where 05_build's gate passes for it; "
            if attention is False
            else ""
        )
        + "fewer tokens in the context: video_test.frame_max_tokens, max_frames",
    )


def graphs_never_reused(case: Case) -> Finding | None:
    """The compute graph is built again for each token."""
    found = explain.graphs(case.own)
    if not found or not found["never"] or found["decode_steps"] < 32:
        return None
    return Finding(
        "compute graphs are never reused",
        f"graphs reused = 0 in {found['decode_steps']:,} steps of decoding",
        "unknown here: building and launching a graph for each token",
        "perf top -p PID: time in the server's own code while the card waits",
        "a tree whose graph inputs can be reused (can_reuse); quantized experts, since graphs of "
        "the card are off for MUL_MAT_ID of other types",
    )


def cache_saves(case: Case) -> Finding | None:
    """Prompts kept in the host's memory, while requests wait."""
    found = explain.cache(case.own)
    spent_ms = (found["updates_ms"] or 0) + (found["idle_slots_ms"] or 0) if found else 0
    if not found or not case.busy_ms or spent_ms < 0.01 * case.busy_ms:
        return None
    return Finding(
        "prompts are saved to the host's memory",
        f"{found['updates']} updates, {found['saved_mib']:,.1f} MiB",
        f"{spent_ms / 1000:.3g} s, {100 * spent_ms / case.busy_ms:.1f} % of the time of requests",
        "serve.cache_ram_mib: 0 and the same requests",
        "serve.cache_ram_mib: 0 where no prompt comes again",
    )


def image_share(case: Case) -> Finding | None:
    """Requests that spend their time on pictures."""
    found = explain.images(case.own)
    if not found or not found["sum_s"] or not case.busy_ms:
        return None
    share = 1000 * found["sum_s"] / case.busy_ms
    if share < 0.2 or found["sum_s"] < 1:
        return None
    tokens = found["tokens_per_image"]
    return Finding(
        "pictures take the time",
        f"{found['images']} pictures"
        + (f" of {tokens:,.0f} tokens" if tokens else "")
        + f", {found['total_ms'] / 1000:,.3g} s each in the middle",
        f"{found['sum_s']:.3g} s, {100 * share:.0f} % of the time of requests",
        "the same question with half of video_test.frame_max_tokens",
        "video_test.frame_max_tokens or frame_size_px: the vision part grows with the square of "
        "the tokens without flash attention, the rest in proportion; or fewer frames",
    )


def slots_unused(case: Case) -> Finding | None:
    """Several slots, and no two requests at once."""
    slots, queue = case.run["slots"], explain.queueing(case.own)
    if (slots or 1) < 2 or queue["tasks"] < 3 or queue["ran_beside_others"] != 0:
        return None
    return Finding(
        "slots that nobody uses",
        f"{slots} slots, {queue['tasks']} requests, none beside another",
        "unknown here; published for another card: 33.6 tokens/s with two, 36.9 with one",
        "serve.parallel: 1 and the same requests",
        "serve.parallel: 1; one slot then also has the whole context",
    )


def queue_time(case: Case) -> Finding | None:
    """Requests that wait for a slot."""
    queue = explain.queueing(case.own)
    longest = queue["longest_wait_s"]
    work = [(row["prompt_ms"] or 0) + (row["decode_ms"] or 0) for row in case.requests]
    if not longest or not work or 1000 * longest < 0.5 * max(work) or longest < 0.05:
        return None
    return Finding(
        "requests wait for a slot",
        f"up to {longest:.3g} s, in the middle {queue['median_wait_s']:.3g} s "
        f"({queue['with_known_wait']} of {queue['tasks']} known)",
        f"{longest:.3g} s of the slowest request",
        "perf_analysis.sweep: time to the first token against clients at once",
        "serve.parallel or serve.replicas, as far as memory goes",
    )


def first_request(case: Case) -> Finding | None:
    """The first prompt takes far longer a token than later ones like it."""
    read = [row for row in case.requests if row["prefill_tps"] and row["prompt_tokens"] >= 8]
    if len(read) < 3:
        return None
    first = read[0]
    alike = [
        row["prefill_tps"] for row in read[1:]
        if bool(row["images"]) == bool(first["images"])
        and 0.5 < row["prompt_tokens"] / first["prompt_tokens"] < 2
    ]  # fmt: skip
    usual = sorted(alike)[len(alike) // 2] if alike else None
    if not usual or usual < 2 * first["prefill_tps"]:
        return None
    lost_ms = first["prompt_ms"] - 1000 * first["prompt_tokens"] / usual
    if lost_ms < 50:
        return None
    return Finding(
        "the first request warms up",
        f"task {first['task']} read {first['prefill_tps']:,.4g} tokens/s, later ones like it "
        f"{usual:,.4g}",
        f"{lost_ms / 1000:.3g} s, once",
        "the same request twice after a start",
        "ask the server something before it is given to others; leave it running",
    )
