"""The accelerator's toolkit: its root, the environment that its env.sh makes, and their checks.

A Jupyter kernel is no login shell: nothing has loaded env.sh for it. What it changes is kept as a
difference that later phases apply.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from keyelab import shell
from keyelab.checks import Check
from keyelab.errors import KeyelabError
from keyelab.files import located, shown
from keyelab.host import machine, sysfs
from keyelab.host.inventory import Cards
from keyelab.host.verdict import none_of, verdict
from keyelab.params import EnvCheck

COMPILERS = {"hip": "hipcc", "cuda": "nvcc"}
ROOTS = ("DTK_PATH", "DTK_HOME", "DTK_ROOT", "ROCM_PATH", "HIP_PATH")
_SHELLS_OWN = {"_", "SHLVL", "PWD", "OLDPWD", "SHELLOPTS", "BASHOPTS", "BASH_ENV"}


@dataclass(frozen=True)
class Toolkit:
    """A toolkit, what its env.sh changes, whether `set -u` stops that, and why it did not load."""

    root: Path | None = None
    version: str | None = None
    difference: dict[str, str] = field(default_factory=dict)
    stops_under_u: bool | None = None
    problem: str = ""


def load(named: str, backend: str, env: Mapping[str, str], log: Path) -> Toolkit:
    """The toolkit in the folder `named`, else the one whose compiler is on the PATH of `env`.

    Its env.sh is loaded in a bash of its own, with `set +u`. What `env` has of this toolkit already
    is taken out first: the difference is the same in a shell that has loaded env.sh before.
    """
    compiler = shell.find(COMPILERS.get(backend, ""), env)
    places = [path.parent.parent for path in (compiler, compiler.resolve())] if compiler else []
    places = [located(named)] if named else [place for place in places if version_of(place)]
    root = next((place for place in places if place.is_dir()), None)
    version = version_of(root) if root else None
    if backend == "cuda" and not version:  # its wheels have no version file; nvcc has CUDA's own
        version = machine.probe("nvcc", env).version
    if root is None or not (root / "env.sh").is_file():
        return Toolkit(root, version, problem="no env.sh in the toolkit" if root else "")
    base = _without(env, root)
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "env"
        # the status of a sourced file is that of its last command and says nothing
        script = ["keyelab", f"{root}/env.sh", str(out)]
        try:
            said = shell.run(["bash", "-c", 'set +eu; . "$1"; env -0 >"$2"', *script], env=base,
                             log=log, timeout_s=30, check=False)  # fmt: skip
            strict = shell.run(["bash", "-uc", '. "$1"', *script], env=base,
                               log=log, timeout_s=30, check=False)  # fmt: skip
        except KeyelabError as error:
            return Toolkit(root, version, problem=error.message)
        lines = out.read_text(errors="surrogateescape").split("\0") if out.exists() else []
    if not lines:
        last = (said.output.strip().splitlines() or ["it ends the shell"])[-1]
        return Toolkit(root, version, problem=f"env.sh stopped: {last}")
    after = dict(line.split("=", 1) for line in lines if "=" in line)
    stops = "unbound variable" in strict.output
    return Toolkit(root, version, _difference(base, after), stops)


def version_of(root: Path) -> str | None:
    """The toolkit's own word: DTK .dtk_version, ROCm .info/version, CUDA version.json."""
    said = sysfs.text(root / ".dtk_version") or sysfs.text(root / ".info/version")
    return said or machine.version_in(sysfs.text(root / "version.json") or "")


def other_roots(toolkit: Path, env: Mapping[str, str]) -> list[str]:
    """Variables and the hipcc of `env` that lead out of the toolkit, as NAME=value."""
    named = {name: env.get(name) for name in ROOTS} | {"hipcc": shell.find("hipcc", env)}
    return [
        f"{name}={value}"
        for name, value in named.items()
        # a link in the toolkit may lead out of it, and a link elsewhere into it
        if value
        and not Path(value).absolute().is_relative_to(toolkit.absolute())
        and not Path(value).resolve().is_relative_to(toolkit.resolve())
    ]


def toolkit_checks(
    kit: Toolkit, params: EnvCheck, cards: Cards, env: Mapping[str, str], log: Path
) -> Iterator[Check]:
    """Its compiler and version; of DTK and ROCm one root, env.sh, libraries of driver and cards.

    `env` is the environment with env.sh loaded.
    """
    name = COMPILERS[params.backend]
    tool = machine.probe(name, env)
    text = tool.version or ("of unknown version" if tool.path else "none")
    yield verdict(name, tool.path is not None, text)
    known = True if kit.version else None if kit.root else False
    yield verdict("toolkit", known, kit.version)
    if kit.root is None or params.backend != "hip":
        return
    arch, vendor = params.probe_arch, cards.vendor
    strays = other_roots(kit.root, env)
    fill = {"root": shown(kit.root), "roots": " ".join(ROOTS)}
    names = " ".join(stray.split("=")[0] for stray in strays)
    yield none_of("toolkit: one root", strays, names=names, **fill)
    hip = machine.probe("hipconfig", env).version
    yield verdict("toolkit: HIP version", machine.numbers(hip) >= (6, 1) if hip else None, hip)
    if vendor == "hygon" or (kit.root / "env.sh").exists():  # ROCm has none
        text = kit.problem or f"sets {' '.join(kit.difference) or 'nothing'}"
        text += "; a shell with set -u stops in it" if kit.stops_under_u else ""
        yield verdict("toolkit: env.sh", not kit.problem, text, **fill)
    if vendor == "hygon":
        yield hyhal_check(cards.seen.root, env)
    if arch:
        yield device_library_check(arch, env, log)


def hyhal_check(root: Path, env: Mapping[str, str]) -> Check:
    """The driver's own tools and libraries, which are outside the toolkit."""
    files = [sysfs.text(path) or "" for path in (root / "etc/ld.so.conf.d").glob("*.conf")]
    searched = {*env.get("LD_LIBRARY_PATH", "").split(":"), *"\n".join(files).split()}
    if not (root / "opt/hyhal/bin/hy-smi").exists():
        return verdict("toolkit: hyhal", False, "no /opt/hyhal/bin/hy-smi")
    loads = bool({"/opt/hyhal/lib", f"{root}/opt/hyhal/lib"} & searched)
    return verdict("toolkit: hyhal", loads, "there, but its lib folder is not searched")


def device_library_check(arch: str, env: Mapping[str, str], log: Path) -> Check:
    """hipcc compiles an empty kernel for the card, which takes the card's device libraries."""
    with tempfile.TemporaryDirectory(prefix="keyelab-empty-") as folder:
        source = Path(folder) / "empty.hip"
        source.write_text("__global__ void nothing() {}\n")
        words = ["hipcc", "-x", "hip", f"--offload-arch={arch}", "-c", f"{source}"]
        try:
            shell.run([*words, "-o", f"{source}.o"], env=env, log=log, timeout_s=120)
        except KeyelabError as error:
            return verdict("toolkit: device libraries", False, error.message, arch=arch)
    return verdict("toolkit: device libraries", True, arch=arch)


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
