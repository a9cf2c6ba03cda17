"""A small tree with a series of rules, for tests of patching in place.

As a program, `patching_tree.py FOLDER KILLS` applies and reverts it under SIGKILL: before every
change of the disk in turn (Python's audit hook tells), then at random moments. It prints how many
kills there were and how often the tree was the old or the new one; anything else raises.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from keyelab.files import STATE, sha256_tree
from keyelab.patching import inplace
from keyelab.patching.plan import Plan, make_plan
from keyelab.patching.rule import Rule
from keyelab.patching.state import status

CHANGES = ("os.mkdir", "os.link", "os.rename", "os.remove", "os.rmdir", "os.chmod", "os.utime")
FILES = ("ggml/src/a.cu", "ggml/src/cuda/run.cu")


def series(*files: str) -> list[Rule]:
    """One rule a file: old becomes new."""
    return [
        Rule.model_validate(
            {
                "id": f"rule-{number}",
                "title": "t",
                "why": {"symptom": "s", "cause": "c", "evidence": "e"},
                "applies_to": [file],
                "edits": [{"find": "old", "replace": "new"}],
            }
        )
        for number, file in enumerate(files)
    ]


def planned(tree: Path, *files: str) -> Plan:
    return make_plan(tree, series(*(files or FILES)))


def make_tree(tree: Path) -> Path:
    """A tree with files that change, files that stay, a link and an executable."""
    contents = {
        "README.md": b"readme\n",
        "ggml/CMakeLists.txt": b"project()\n",
        "ggml/src/a.cu": b"old a\n",
        "ggml/src/stays.cu": b"as it is\n",
        "ggml/src/cuda/run.cu": b"old b\r\n",
        "ggml/src/other/deep/stays.h": b"\xff not UTF-8\n",
    }
    for name, content in contents.items():
        path = tree / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        os.utime(path, (1_000_000_000, 1_000_000_000))
    (tree / "ggml/src/cuda/run.cu").chmod(0o755)
    (tree / "ggml/src/cuda").chmod(0o750)
    (tree / "ggml/src/link").symlink_to("a.cu")
    return tree


def _killed(work: Callable[[], None], after_s: float | None) -> bool:
    """Run `work` in a child and kill it after so many seconds; False when it ended before."""
    child = os.fork()
    if not child:
        try:
            work()
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    if after_s is not None:
        time.sleep(after_s)
        os.kill(child, signal.SIGKILL)
    _, code = os.waitpid(child, 0)
    if os.WIFEXITED(code) and os.WEXITSTATUS(code):
        raise AssertionError("the command failed")
    return os.WIFSIGNALED(code)


def _dying(work: Callable[[], object], event: int) -> Callable[[], None]:
    seen = 0

    def hook(name: str, arguments: tuple[Any, ...]) -> None:
        nonlocal seen
        writes = name == "open" and arguments[2] & (os.O_WRONLY | os.O_RDWR)
        seen += bool(writes or name in CHANGES)
        if seen == event and name != "os.kill":
            os.kill(os.getpid(), signal.SIGKILL)

    def doomed() -> None:
        sys.addaudithook(hook)
        work()

    return doomed


def _main(folder: Path, random_kills: int) -> None:
    os.fsync = lambda descriptor: None  # a killed process loses nothing that it has written
    tree, commands = make_tree(folder / "tree"), (_apply, inplace.revert)
    old = sha256_tree(tree)
    new = inplace.apply(planned(tree), "r").tree_sha256
    inplace.revert(tree)
    kinds = {old: "pristine", new: "patched"}
    seen: Counter[str] = Counter()

    def after_a_kill(goal: str, command: Callable[[Path], object]) -> None:
        found = sha256_tree(tree)
        assert status(tree).kind == kinds[found]
        seen[kinds[found]] += 1
        command(tree)
        assert sha256_tree(tree) == goal
        assert not (tree / STATE / "next").exists()
        assert (tree / STATE).exists() == (goal == new)

    for start, command, goal in ((old, _apply, new), (new, inplace.revert, old)):
        for event in range(1, 10_000):
            (inplace.revert if start == old else _apply)(tree)
            if not _killed(_dying(lambda: command(tree), event), None):  # noqa: B023
                break
            after_a_kill(goal, command)
    changes = sum(seen.values())

    def forever() -> None:
        while True:
            _apply(tree)
            inplace.revert(tree)

    started = time.monotonic()
    _apply(tree)
    inplace.revert(tree)
    cycle_s = time.monotonic() - started
    chance = random.Random(3)
    for _ in range(random_kills):
        assert _killed(forever, chance.uniform(0, 1.5 * cycle_s))
        number = chance.randrange(2)
        after_a_kill((new, old)[number], commands[number])
    left = sorted(path.name for path in folder.iterdir())
    shutil.rmtree(tree)
    print(json.dumps({"changes": changes, "random": random_kills, "left": left, **seen}))


def _apply(tree: Path) -> object:
    return inplace.apply(planned(tree), "r")


if __name__ == "__main__":
    _main(Path(sys.argv[1]), int(sys.argv[2]))
