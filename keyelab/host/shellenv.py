"""The environment that a toolkit's env.sh makes, as a difference that later phases can apply.

A Jupyter kernel is no login shell: nothing has loaded env.sh for it.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from keyelab import shell
from keyelab.errors import KeyelabError
from keyelab.files import located

ROOTS = ("DTK_PATH", "DTK_HOME", "DTK_ROOT", "ROCM_PATH", "HIP_PATH")
_SHELLS_OWN = {"_", "SHLVL", "PWD", "OLDPWD", "SHELLOPTS", "BASHOPTS", "BASH_ENV"}


@dataclass(frozen=True)
class Loaded:
    """What env.sh changes (`difference`), whether `set -u` stops it, and why it did not load."""

    difference: dict[str, str]
    stops_under_u: bool | None = None
    problem: str = ""


def load(toolkit_root: str, env: Mapping[str, str], log: Path) -> Loaded:
    """`capture` for a parameter toolkit_root; nothing is loaded where that is empty."""
    return capture(located(toolkit_root), env, log) if toolkit_root else Loaded({})


def capture(toolkit: Path, env: Mapping[str, str], log: Path) -> Loaded:
    """Load env.sh of a toolkit in a bash of its own, with `set +u`, and see what it changed.

    What `env` has of this toolkit already is taken out first, so that the difference is the same
    in a shell that has loaded env.sh before.
    """
    script = toolkit / "env.sh"
    if not script.is_file():
        return Loaded({}, problem=f"no {script.name} in the toolkit")
    base = _without(env, toolkit)
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "env"
        # the status of a sourced file is that of its last command and says nothing
        words = ["bash", "-c", 'set +eu; . "$1"; env -0 >"$2"', "keyelab", str(script), str(out)]
        try:
            said = shell.run(words, env=base, log=log, timeout_s=30, check=False)
            strict = shell.run(["bash", "-uc", '. "$1"', "keyelab", script], env=base, log=log,
                               timeout_s=30, check=False)  # fmt: skip
        except KeyelabError as error:
            return Loaded({}, problem=error.message)
        lines = out.read_text(errors="surrogateescape").split("\0") if out.exists() else []
    if not lines:
        last = (said.output.strip().splitlines() or ["it ends the shell"])[-1]
        return Loaded({}, problem=f"env.sh stopped: {last}")
    after = dict(line.split("=", 1) for line in lines if "=" in line)
    return Loaded(_difference(base, after), "unbound variable" in strict.output)


def other_roots(toolkit: Path, env: Mapping[str, str]) -> list[str]:
    """Variables and the hipcc of `env` that lead out of the toolkit, as NAME=value."""
    named = {name: env[name] for name in ROOTS if env.get(name)}
    if hipcc := shell.find("hipcc", env):
        named["hipcc"] = str(hipcc)
    return [
        f"{name}={value}"
        for name, value in named.items()
        # a link in the toolkit may lead out of it, and a link elsewhere into it
        if not Path(value).absolute().is_relative_to(toolkit.absolute())
        and not Path(value).resolve().is_relative_to(toolkit.resolve())
    ]


def _without(env: Mapping[str, str], toolkit: Path) -> dict[str, str]:
    roots = [str(toolkit.absolute()), str(toolkit.resolve())]
    base = {}
    for name, value in env.items():
        parts = [
            part
            for part in value.split(os.pathsep)
            if not any(part == root or part.startswith(f"{root}/") for root in roots)
        ]
        if parts and name not in ("BASH_ENV", "SHELLOPTS"):
            base[name] = os.pathsep.join(parts)
    return base


def _difference(before: Mapping[str, str], after: Mapping[str, str]) -> dict[str, str]:
    changed = {}
    for name, value in sorted(after.items()):
        was = before.get(name)
        if name in _SHELLS_OWN or not re.fullmatch(r"[A-Za-z_]\w*", name) or value == was:
            continue
        if was and f":{was}:" in f":{value}:":
            value = f":{value}:".replace(f":{was}:", f":${{{name}}}:", 1)[1:-1]
        elif was is None and value.endswith(":"):
            value += f"${{{name}}}"  # it was put before an unset variable
        changed[name] = value
    return changed
