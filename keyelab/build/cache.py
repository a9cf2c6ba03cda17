"""Builds by content: workdir/builds/<key>/ is finished when its result.json is there and true."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator

from keyelab.build.lock import held
from keyelab.build.plan import BuildPlan
from keyelab.build.result import Result, digests
from keyelab.build.run import OnProgress
from keyelab.checks import Check, worst
from keyelab.errors import KeyelabError
from keyelab.facts import BuildFacts
from keyelab.files import read_json, shown, write_json

RESULT = "result.json"


@contextlib.contextmanager
def locked(plan: BuildPlan, on_progress: OnProgress) -> Iterator[int]:
    """Hold this build against other writers; yields the descriptor for `pass_fds`."""
    with held(plan.build_dir.with_suffix(".lock"), on_progress) as descriptor:
        yield descriptor


def finished(plan: BuildPlan) -> BuildFacts | None:
    """The facts of a finished build of this plan, or None when a file is missing or changed."""
    path = plan.build_dir / RESULT
    if not path.is_file():
        return None
    try:
        content = read_json(path)
        facts = BuildFacts.model_validate(content["facts"])
    except (KeyelabError, KeyError, TypeError, ValueError):
        return None
    if content.get("key") != plan.key or not plan.bin_dir.is_dir():
        return None
    now = digests(plan.bin_dir)
    if {n: f.sha256 for n, f in now.items()} != {n: f.sha256 for n, f in facts.binaries.items()}:
        return None
    return facts.model_copy(update={"reused": True, "binaries": now})


def begin(plan: BuildPlan) -> None:
    """Take the finished mark away: from here the folder may hold half a build."""
    (plan.build_dir / RESULT).unlink(missing_ok=True)


def facts(plan: BuildPlan, seen: Result, reused: bool = False) -> BuildFacts:
    """What later phases read of a build."""
    return BuildFacts(
        build_dir=shown(plan.build_dir),
        key=plan.key,
        reused=reused,
        backend=plan.backend,
        gpu_targets=plan.gpu_targets,
        build_type=plan.build_type,
        version=seen.version or "",
        backends=seen.backends,
        command=plan.command,
        binaries=seen.binaries,
    )


def keep(plan: BuildPlan, seen: Result, verdicts: Iterable[Check]) -> None:
    """Mark a build as finished when no verdict on it failed; written last."""
    if worst(verdicts) == "failed":
        return
    write_json(
        plan.build_dir / RESULT,
        {
            "schema": 1,
            "key": plan.key,
            "inputs": plan.inputs,
            "facts": facts(plan, seen).model_dump(),
        },
    )
