"""Rules that need the facts of the phases before: cards, command, model, a sweep."""

from __future__ import annotations

from keyelab.perf.case import Case, Finding
from keyelab.perf.depth import flags
from keyelab.perf.fit import fit


def cpu_fallback(case: Case) -> Finding | None:
    """More graph parts than devices and one: operations leave the accelerator in between."""
    splits, devices = case.run["graph_splits"], len(case.server.devices) if case.server else 0
    if splits is None or not devices or splits <= devices + 1:
        return None
    return Finding(
        "operations run on the CPU",
        f"graph splits = {splits} with {devices} devices (expected at most {devices + 1})",
        "unknown here; measured on an H200, a TOP_K in each of 48 layers: 0.19 of the decode speed "
        "is left at 12,288 tokens (patches/README.md)",
        "GGML_SCHED_DEBUG=2 llama-server -v … names the operation; TOP_K and ARGSORT of more than "
        "1,024 columns are not taken by HIP before #27466",
        "a tree that has the operation (b11010 has TOP_K), or a context below 1,024 tokens",
    )


def grows_beyond_state(case: Case) -> Finding | None:
    """A sweep whose decoding grows faster with depth than its state and arithmetic explain."""
    rows = [row for row in case.sweep if row["way"] == "http" and row["ms_per_token"]]
    line = fit([row["depth_tokens"] for row in rows], [row["ms_per_token"] for row in rows])
    if not line or line.slope_interval()[0] <= 0 or not case.shape or not case.shape.state_bytes:
        return None
    base, low = line.at(0)[0], line.slope_interval()[0]
    expected = max(base, 0.0) * case.shape.state_bytes / case.shape.read_bytes
    if not expected or low < 3 * expected:
        return None
    return Finding(
        "depth costs more than the bytes it moves",
        f"{1000 * line.slope:.3g} ms per 1,000 tokens measured (at least {1000 * low:.3g}); at the "
        f"speed that weights are read, the state would take {1000 * expected:.2g}",
        f"{(line.slope - expected) * line.high_x:.3g} ms of each token at {line.high_x:,.0f}",
        "llama-bench -fa 0,1 -d …, and -t 1,2,… on the CPU",
        "nothing yet: attention computes more than it moves here, or an operation falls back; "
        "find out which first",
    )


def moe_prompt(case: Case) -> Finding | None:
    """Prompts of an unquantized mixture of experts on a card: one product after another."""
    shape = case.shape
    if case.backend not in ("hip", "cuda") or not shape or not shape.experts:
        return None
    rates = [row["prefill_tps"] for row in case.requests if (row["prompt_tokens"] or 0) >= 512]
    known = [rate for rate in rates if rate]
    if shape.type not in ("BF16", "F16", "F32") or not known:
        return None
    return Finding(
        "experts are multiplied one by one while a prompt is read",
        f"{shape.type} weights, {shape.experts} experts, best prompt {max(known):,.0f} tokens/s",
        "unknown here: up to as many products and two waits for the card an operation "
        "(ggml-cuda.cu, ggml_cuda_mul_mat_id)",
        "llama-bench -p 2048 -n 0 -ub 512,2048: a larger -ub helps where this is the cost",
        "serve.ubatch_tokens: 2048, or quantized weights on a tree whose MMQ kernels are right",
    )


def spread_over_cards(case: Case) -> Finding | None:
    """More cards than the weights and states need: they work one after the other."""
    server, host = case.server, case.host
    if not server or not host or len(server.devices) < 2:
        return None
    held = {name: mib for name, mib in server.buffers_mib.items() if "CPU" not in name}
    sizes = [device.memory_bytes for device in host.devices if device.memory_bytes]
    needed_mib = sum(held.values())
    if not held or not sizes or 1.1 * needed_mib > min(sizes) / 2**20:
        return None
    return Finding(
        "split over more cards than needed",
        f"{len(server.devices)} devices hold {needed_mib:,.0f} MiB together; one has "
        f"{min(sizes) / 2**20:,.0f}",
        "unknown here: with split mode layer the cards work one after the other, and each hop is "
        "a copy",
        "llama-bench -sm none,layer",
        "serve.devices: the first one, serve.split_mode: none; serve.replicas for the others",
    )


def threads(case: Case) -> Finding | None:
    """More threads than cores that this process may use."""
    server, host = case.server, case.host
    if case.backend != "cpu" or not server or not host:
        return None
    asked = flags(server).get("--threads", "")
    if not asked.isdigit() or int(asked) <= host.cores:
        return None
    return Finding(
        "more threads than cores",
        f"--threads {asked} on {host.cores} cores",
        "unknown here: threads wait for each other at every operation",
        f"llama-bench -t {host.cores},{asked}",
        f"serve.threads: {host.cores} or fewer",
    )


def numa(case: Case) -> Finding | None:
    """Weights on one memory node, threads on several."""
    nodes = case.numa_nodes
    if case.backend != "cpu" or not case.server or not nodes or nodes < 2:
        return None
    if "--numa" in case.server.command:
        return None
    return Finding(
        "several memory nodes, and no word about them",
        f"{nodes} NUMA nodes, the command has no --numa",
        "unknown here: weights that were first read on one node are far from the others",
        "llama-bench --numa distribute against none, after dropping the page cache",
        'serve.extra_args: ["--numa", "distribute"]',
    )
