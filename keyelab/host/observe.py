"""Asks the tools of a host, each with a time-out, and keeps what they say, word for word."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from keyelab import shell
from keyelab.errors import KeyelabError
from keyelab.host import nvidia, sysfs, vendor

TIMEOUT_S = 30.0
ROUNDS, PAUSE_S = 3, 0.5
ASKED = {
    "bus": ["--showbus", "--json"],
    "product": ["--showproductname", "--json"],
    "numa": ["--showtoponuma", "--json"],
    "clocks": ["--showclocks"],
    "driver": ["--showdriverversion"],
    "pids": ["--showpids"],
    "health": ["--healthcheck"],
    "table": [],
}
SAMPLED = {"memory": ["--showmeminfo", "vram", "--json"], "use": ["--showuse", "--json"]}
RUNTIME = {"rocminfo": ["rocminfo"], "agents": ["rocm_agent_enumerator"]}
BUS = {"lspci": ["lspci", "-D", "-nn"], "lspci-vvv": ["lspci", "-D", "-vvv"]}
# hy-smi also sets clocks and power, injects errors, resets cards and unloads the driver
_READS = re.compile(r"--show\w+|--json|--healthcheck|vram")


@dataclass(frozen=True)
class Seen:
    """What was said, by a short name ('' where nothing was), why not, and the samples taken."""

    root: Path
    tool: str = ""
    said: Mapping[str, str] = field(default_factory=dict)
    why: Mapping[str, str] = field(default_factory=dict)
    rounds: tuple[dict[int, vendor.Reading], ...] = ()

    def text(self, name: str) -> str:
        """What the program of this name said; '' when it did not answer."""
        return self.said.get(name, "")


def look(
    backend: str,
    env: Mapping[str, str],
    root: Path,
    log: Path,
    on_progress: Callable[[float | None, str], None] = lambda fraction, text: None,
    pause_s: float = PAUSE_S,
) -> Seen:
    """Ask everything that there is to ask for a backend; a tool that fails has said nothing.

    The answers are kept below the folder of `log`, in host/, under the name of `log`.
    """
    if backend == "cpu":
        return Seen(root)
    tool = "nvidia-smi" if backend == "cuda" else smi(env, root)
    if backend == "cuda":
        once, often = BUS, {"query": nvidia.QUERY}
    else:
        once = BUS | RUNTIME | {name: [tool, *words] for name, words in ASKED.items() if tool}
        often = {name: [tool, *words] for name, words in SAMPLED.items() if tool}
    said: dict[str, str] = {}
    why: dict[str, str] = {}
    rounds = []
    steps = len(once) + ROUNDS * len(often)

    def ask(name: str, words: list[str]) -> str:
        on_progress(len(said) / steps, name)
        said[name], why[name] = _answer(words, env, _kept(log, name))
        return said[name]

    for name, words in once.items():
        ask(name, words)
    for number in range(ROUNDS):
        time.sleep(pause_s if number else 0)
        answers = [ask(f"{name}-{number + 1}", words) for name, words in often.items()]
        read = nvidia.read if backend == "cuda" else vendor.read
        rounds.append(vendor.merged(map(read, answers)) if often else sysfs.readings(root))
    return Seen(root, tool, said, {name: text for name, text in why.items() if text}, tuple(rounds))


def smi(env: Mapping[str, str], root: Path) -> str:
    """The vendor's tool: hy-smi on PATH or in hyhal, else rocm-smi; '' for none."""
    for name in ("hy-smi", str(root / "opt/hyhal/bin/hy-smi"), "rocm-smi"):
        if shell.find(name, env):
            return name
    return ""


def _answer(words: list[str], env: Mapping[str, str], log: Path) -> tuple[str, str]:
    if Path(words[0]).name in ("hy-smi", "rocm-smi"):
        wrong = [word for word in words[1:] if not _READS.fullmatch(word)]
        if wrong:
            raise ValueError(f"{words[0]} is only asked questions, not {wrong[0]}")
    log.unlink(missing_ok=True)
    try:
        result = shell.run(words, env=env, log=log, timeout_s=TIMEOUT_S, check=False)
    except (KeyelabError, OSError) as error:
        return "", getattr(error, "message", str(error))
    if result.returncode:
        # its answer may still be there, as rocminfo's is after a warning
        return result.output, f"exit status {result.returncode}"
    return result.output, "" if result.output.strip() else "it printed nothing"


def _kept(log: Path, name: str) -> Path:
    return log.parent / "host" / f"{log.stem}-{name}.log"
