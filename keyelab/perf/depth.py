"""Depth sweeps: speed at given context depths, by llama-bench and through HTTP.

Both give rows with the same columns, one a repetition: `way` (llama-bench or http), the asked
`context_tokens`, `depth_tokens` (mean context depth of what is measured), `prompt_tokens`,
`prefill_tps`, `ms_per_token`.
"""

from __future__ import annotations

import itertools
import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from keyelab import shell
from keyelab.errors import KeyelabError
from keyelab.facts import ServerFact
from keyelab.files import shown
from keyelab.perf.client import Client, fixed

Row = dict[str, Any]
_SAME = {  # flags that llama-server and llama-bench share: long form to llama-bench's
    "--threads": "-t", "--flash-attn": "-fa", "--cache-type-k": "-ctk", "--cache-type-v": "-ctv",
    "--ubatch-size": "-ub", "--split-mode": "-sm",
}  # fmt: skip
PROMPT = 128  # tokens read at each depth by llama-bench


def flags(server: ServerFact) -> dict[str, str]:
    """The flags of a server's command that have a value."""
    words = shlex.split(server.command)
    return {
        word: value
        for word, value in itertools.pairwise(words)
        if word.startswith("--") and not value.startswith("--")
    }


def fitting(depths: Sequence[int], answer: int, context_tokens: int | None) -> list[int]:
    """Those depths whose answer still fits into the context of a slot."""
    return [d for d in depths if context_tokens is None or d + answer + 1 <= context_tokens]


def bench_command(
    bench: Path, server: ServerFact, model: Path, depths: Sequence[int], answer: int, repeats: int
) -> list[str]:
    """llama-bench with what the server was started with; its own warm-up comes before each test."""
    given = flags(server)
    same = [word for flag, short in _SAME.items() if flag in given for word in (short, given[flag])]
    if "--device" in given:
        same += ["-dev", given["--device"].replace(",", "/")]
    depth = ",".join(map(str, depths))
    return [
        str(bench), "-m", str(model), "-p", str(PROMPT), "-n", str(answer), "-d", depth,
        "-r", str(repeats), "-o", "jsonl", *same,
    ]  # fmt: skip


def bench(argv: Sequence[str], env: Mapping[str, str], log: Path) -> list[Row]:
    """Run llama-bench; raises KeyelabError where it gives no result."""
    done = shell.run(argv, env=env, log=log)
    return bench_rows(done.output, shown(log))


def bench_rows(output: str, where: str) -> list[Row]:
    """The rows in the JSON lines of llama-bench; errors and warnings stand between them."""
    found = [json.loads(line) for line in output.splitlines() if line.startswith('{"build')]
    rows: list[Row] = []
    for test in found:
        depth, read, written = test["n_depth"], test["n_prompt"], test["n_gen"]
        for tps in test["samples_ts"]:
            rows.append(
                {
                    "way": "llama-bench",
                    "context_tokens": depth,
                    "depth_tokens": depth + (read or written) / 2,
                    "prompt_tokens": read or None,
                    "prefill_tps": tps if read else None,
                    "ms_per_token": 1000 / tps if written and tps else None,
                }
            )
    if not rows:
        raise KeyelabError(
            f"expected results of llama-bench in {where}, found none", f"tail {where}"
        )
    return rows


def through_http(
    client: Client,
    depths: Sequence[int],
    answer: int,
    repeats: int,
    on_progress: Callable[[float | None, str], None] = lambda share, text: None,
) -> list[Row]:
    """Ask for `answer` tokens after prompts of each depth, round after round.

    The first round warms up and is thrown away. Rounds, so that a machine that gets slower does so
    for every depth. Raises KeyelabError for a busy server and for an answer of another length.
    """
    require_idle(client)
    prompts = {depth: client.tokens(max(depth, 1)) for depth in sorted(set(depths))}
    rows: list[Row] = []
    for number in range(repeats + 1):
        for place, (depth, prompt) in enumerate(prompts.items()):
            on_progress(
                (number + place / len(prompts)) / (repeats + 1), f"{depth} tokens, round {number}"
            )
            reply = client.ask(fixed(prompt, answer))
            if reply.error or reply.tokens != answer:
                found = reply.error or f"{reply.tokens} tokens"
                raise KeyelabError(
                    f"expected {answer} tokens after a prompt of {depth}, found {found}",
                    "lower perf_analysis.sweep_depths, or raise serve.context_tokens",
                )
            if number:
                rows.append(
                    {
                        "way": "http",
                        "context_tokens": depth,
                        "depth_tokens": (reply.prompt_tokens or depth) + answer / 2,
                        "prompt_tokens": reply.prompt_tokens,
                        "prefill_tps": 1000 * (reply.prompt_tokens or 0) / (reply.prompt_ms or 1)
                        if (reply.prompt_tokens or 0) > 1 and reply.prompt_ms
                        else None,
                        "ms_per_token": (reply.decode_ms or 0) / (answer - 1) or None,
                    }
                )
    return rows


def require_idle(client: Client) -> None:
    """Raise KeyelabError when another request is running: it would be measured with ours."""
    if busy := client.busy():
        raise KeyelabError(
            f"expected an idle server at {client.url}, found {busy} requests running",
            "wait for them, or start a server of your own: keyelab run --from serve",
        )


def spread(rows: Sequence[Row]) -> list[Row]:
    """One row a way and context: medians, with n, least and most of each."""
    import pandas as pd

    out: list[Row] = []
    for (way, context), part in pd.DataFrame(rows).groupby(["way", "context_tokens"]):
        writing = part.dropna(subset=["ms_per_token"])
        row: Row = {
            "way": way,
            "context_tokens": int(context),
            "depth_tokens": float((writing if len(writing) else part).depth_tokens.mean()),
            "prompt_tokens": _median(part.prompt_tokens),
        }
        for name in ("prefill_tps", "ms_per_token"):
            values = part[name].dropna()
            row[name] = _median(values)
            told = f"{values.min():,.4g} to {values.max():,.4g}, n = {len(values)}"
            row[f"{name} (least to most)"] = told if len(values) else None
        out.append(row)
    return out


def _median(values: Any) -> float | None:
    values = values.dropna()
    return float(values.median()) if len(values) else None


def agreement(rows: Sequence[Row]) -> tuple[int, float] | None:
    """(context, ratio): ms a token through HTTP over llama-bench's, at the deepest common one.

    The best repetition of each: other work on the machine slows some down, and none up.
    """
    ways: dict[str, dict[int, float]] = {"http": {}, "llama-bench": {}}
    for row in rows:
        if row["ms_per_token"]:
            best = ways[row["way"]]
            context = row["context_tokens"]
            best[context] = min(row["ms_per_token"], best.get(context, row["ms_per_token"]))
    common = set(ways["http"]) & set(ways["llama-bench"])
    if not common:
        return None
    deepest = max(common)
    return deepest, ways["http"][deepest] / ways["llama-bench"][deepest]
