"""Checks of a HIP toolkit: one root, its env.sh, the driver's libraries, its compiler."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path

from keyelab import shell
from keyelab.checks import Check
from keyelab.errors import KeyelabError
from keyelab.files import shown
from keyelab.host import sysfs
from keyelab.host.shellenv import ROOTS, Loaded, other_roots
from keyelab.host.tools import Toolchain, at_least
from keyelab.host.verdict import verdict

EMPTY = "__global__ void nothing() {}\n"


def toolkit_checks(
    found: Toolchain, loaded: Loaded, vendor: str, env: Mapping[str, str], root: Path
) -> list[Check]:
    """What can be seen of the toolkit; `env` is the environment with env.sh loaded."""
    toolkit = found.toolkit_root
    if toolkit is None:
        return []
    strays = other_roots(toolkit, env)
    names = " ".join(stray.split("=")[0] for stray in strays)
    place = {"root": shown(toolkit)}
    checks = [
        verdict("toolkit: one root", not strays, " ".join(strays) or "all inside", names=names,
                roots=" ".join(ROOTS), **place)
    ]  # fmt: skip
    hip = found.tools["hipconfig"].version
    checks.append(verdict("toolkit: HIP version", at_least(hip, (6, 1)) if hip else None, str(hip)))
    if vendor != "hygon" and loaded.problem and not (toolkit / "env.sh").exists():
        return checks  # ROCm has no env.sh
    text = loaded.problem or f"sets {' '.join(loaded.difference) or 'nothing'}"
    text += "; a shell with set -u stops in it" if loaded.stops_under_u else ""
    checks.append(verdict("toolkit: env.sh", not loaded.problem, text, **place))
    return [*checks, hyhal_check(root, env)] if vendor == "hygon" else checks


def hyhal_check(root: Path, env: Mapping[str, str]) -> Check:
    """The driver's own tools and libraries, which are outside the toolkit."""
    hyhal = root / "opt/hyhal"
    searched = env.get("LD_LIBRARY_PATH", "").split(":")
    files = [sysfs.text(path) or "" for path in (root / "etc/ld.so.conf.d").glob("*.conf")]
    lines = {line.strip() for text in files for line in text.splitlines()}
    loads = bool({"/opt/hyhal/lib", str(hyhal / "lib")} & {*searched, *lines})
    there = (hyhal / "bin/hy-smi").exists()
    text = "no /opt/hyhal/bin/hy-smi" if not there else "there and searched"
    return verdict(
        "toolkit: hyhal",
        there and loads,
        text if loads or not there else "there, but its lib folder is not searched",
    )


def device_library_checks(arch: str, env: Mapping[str, str], log: Path) -> list[Check]:
    """hipcc compiles an empty kernel for the card, which takes the card's device libraries."""
    if not arch:
        return []
    with tempfile.TemporaryDirectory(prefix="keyelab-empty-") as folder:
        source = Path(folder) / "empty.hip"
        source.write_text(EMPTY)
        words = ["hipcc", "-x", "hip", f"--offload-arch={arch}", "-c", str(source)]
        try:
            shell.run([*words, "-o", f"{folder}/empty.o"], env=env, log=log, timeout_s=120)
        except KeyelabError as error:
            return [verdict("toolkit: device libraries", False, error.message, arch=arch)]
    return [verdict("toolkit: device libraries", True, "compiled", arch=arch)]
