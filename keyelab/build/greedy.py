"""Greedy answers of the built server on the card and on the CPU, at four context lengths.

The prompt repeats one row of numbers, so that its continuation is certain: rounding cannot change
it, a wrong kernel does. Each answer ends where the rows of the attention have 512 to 4,096
columns, the powers of two for which kernels have instances of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from keyelab.build import gate
from keyelab.build.answers import Answer, greedy, server, tokenize
from keyelab.build.plan import KERNEL_GATE, BuildPlan
from keyelab.build.result import Result
from keyelab.checks import Check, check
from keyelab.errors import KeyelabError
from keyelab.facts import ModelFacts
from keyelab.files import located, shown

LENGTHS = (512, 1024, 2048, 4096)  # tokens of prompt and answer
ANSWER = 16  # tokens
REPEATS = 4
NUMBERS = "".join(f" {37 * step % 997}" for step in range(1, 1025))
OnProgress = Callable[[float | None, str], None]


def run(
    plan: BuildPlan,
    seen: Result,
    model: ModelFacts,
    env: Mapping[str, str],
    log: Path,
    on_progress: OnProgress,
) -> tuple[list[dict[str, object]], list[Check]]:
    """Compare the accelerators' answers with the CPU's; returns table rows and the verdict.

    A length above the model's context is skipped, which is no pass. A wrong answer is left in
    workdir/gates/ as one of the gate's is. A CPU build, or no accelerator, gives neither.
    """
    if KERNEL_GATE not in plan.programs or not seen.devices:
        return [], []
    name = seen.devices[0].split(":")[0]
    lengths = [length for length in LENGTHS if length <= model.context_tokens]
    skipped = [length for length in LENGTHS if length not in lengths]
    there: dict[int, Answer] = {}
    here: dict[int, Answer] = {}
    numbers: list[int] = []
    try:
        if lengths:
            numbers, there = _answers(plan, [], name, model, lengths, env, log, on_progress)
            cpu = ["--device", "none"]
            _, here = _answers(plan, cpu, "CPU", model, lengths, env, log, on_progress)
    except KeyelabError as error:
        return [], [_verdict(False, str(error), log)]
    rows: list[dict[str, object]] = [
        {"tokens": length, name: one.text, "CPU": here[length].text}
        | {"same": one.tokens == here[length].tokens}
        | {f"{name}_s": one.took_s, "CPU_s": here[length].took_s}
        for length, one in there.items()
    ]
    rows += [{"tokens": length, "same": "skipped"} for length in skipped]
    judged = {
        length: judge(one, here[length], continuation(numbers, length))
        for length, one in there.items()
    }
    wrong = [f"{n:,} tokens: {text}" for n, (good, text) in judged.items() if good is False]
    unsure = [f"{n:,} tokens: {text}" for n, (good, text) in judged.items() if good is None]
    unsure += [f"{n:,} tokens: skipped, the model has {model.context_tokens:,}" for n in skipped]
    if wrong:
        gate.remember(plan, seen, [f"greedy answer at {text}" for text in wrong])
    found = "; ".join([*wrong, *unsure]) or f"the same at {len(lengths)} lengths"
    return rows, [_verdict(False if wrong else None if unsure else True, found, log)]


def judge(one: Answer, cpu: Answer, certain: Sequence[int]) -> tuple[bool | None, str]:
    """Whether an answer is the CPU's, and its first difference.

    Unknown where the CPU itself has left the certain continuation before: rounding may decide.
    """
    if one.tokens == cpu.tokens:
        return True, ""
    at = common(one.tokens, cpu.tokens)
    text = f"token {at + 1} differs, {one.text!r} and on the CPU {cpu.text!r}"
    if at < common(cpu.tokens, certain):
        return False, text
    return None, f"{text}, which does not continue the pattern either"


def prompt(numbers: Sequence[int], length: int) -> list[int]:
    """Token ids that an answer of ANSWER tokens brings to one below `length`."""
    return ([*numbers[: length // REPEATS]] * REPEATS)[: length - ANSWER - 1]


def continuation(numbers: Sequence[int], length: int) -> list[int]:
    """The ANSWER tokens that certainly follow `prompt`."""
    return [*numbers[: length // REPEATS]][-ANSWER - 1 : -1]


def common(one: Sequence[int], other: Sequence[int]) -> int:
    """How many tokens two answers share at their beginning."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(one), len(other)))


def _answers(
    plan: BuildPlan,
    where: Sequence[str],
    name: str,
    model: ModelFacts,
    lengths: Sequence[int],
    env: Mapping[str, str],
    log: Path,
    on_progress: OnProgress,
) -> tuple[list[int], dict[int, Answer]]:
    """Token ids of NUMBERS, and the answers by length."""
    argv = [str(plan.bin_dir / "llama-server"), "--model", str(located(model.model.path)), *where]
    options = ["--ctx-size", str(max(lengths)), "--parallel", "1", "--cache-ram", "0"]
    attention = ["--flash-attn", plan.source.flash_attention]
    on_progress(None, f"loading for {name}")
    with server([*argv, *options, *attention], env, log) as ask:
        numbers = tokenize(ask, NUMBERS)
        answers = {}
        for length in lengths:
            on_progress(None, f"{name} at {length:,} tokens")
            answers[length] = greedy(ask, prompt(numbers, length), ANSWER)
    return numbers, answers


def _verdict(good: bool | None, found: str, log: Path) -> Check:
    return check(
        "greedy answers",
        good,
        expected="the card answers as the CPU at every length",
        found=found,
        remedy=f"see {shown(log)}; where answers differ choose another recipe (keyelab run --from "
        "source_patch)",
    )
