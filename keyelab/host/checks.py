"""Checks of every machine: memory, disk, port, build tools, proxies, clock; and of its kernel."""

from __future__ import annotations

import os
import re
import resource
import shutil
import socket
import tempfile
import time
from collections.abc import Iterator, Mapping
from importlib import metadata
from pathlib import Path

from keyelab.checks import Check
from keyelab.files import shown
from keyelab.host import answers, sysfs
from keyelab.host.card import Card
from keyelab.host.inventory import Cards
from keyelab.host.machine import CMAKE_LEAST, Tool, compiles_cxx17, numbers
from keyelab.host.reading import gib
from keyelab.host.verdict import none_of, verdict
from keyelab.params import EnvCheck

SLOW_MB_S = 200


def machine_checks(params: EnvCheck, workdir: Path, env: Mapping[str, str]) -> Iterator[Check]:
    """Memory, disk, port, OpenCV, and what would catch requests or date them wrongly."""
    import psutil

    least, free = params.min_memory_gib, psutil.virtual_memory().available
    yield verdict("memory", free >= least * 2**30, gib(free), least=least)
    yield from disk_checks(workdir, params.min_disk_gib)
    yield port_check(params.port)
    yield opencv_check()
    yield proxy_check(env)
    yield clock_check(time.time())
    if params.disk_probe_mib and not params.dry_run:
        yield disk_speed_check(workdir, params.disk_probe_mib)


def tool_checks(found: Mapping[str, Tool], env: Mapping[str, str]) -> Iterator[Check]:
    """The C++ compiler, build tools and Python packages."""
    cxx, cmake, ninja = (found[name] for name in ("C++ compiler", "cmake", "ninja"))
    text = f"{shown(cxx.path)} {cxx.version or 'of unknown version'}" if cxx.path else "none"
    yield verdict("C++ compiler", bool(cxx.path and compiles_cxx17(cxx.path, env)), text)
    new = None if cmake.path and not cmake.version else numbers(cmake.version) >= CMAKE_LEAST
    yield verdict("CMake", new, cmake.version or "none")
    yield verdict("ninja", ninja.path is not None, ninja.version or "none")
    yield from package_checks()


def package_checks() -> Iterator[Check]:
    """Every package that keyelab requires, and one OpenCV: the last one installed wins in cv2."""
    there = {_plain(str(d.metadata["Name"])): d.requires or [] for d in metadata.distributions()}
    asked = [_plain(line) for line in there.get("keyelab", ()) if "extra ==" not in line]
    wheels = sorted(name for name in there if name.startswith("opencv-"))
    # a server without libGL has the headless wheel: the same module
    missing = [n for n in asked if n not in there and not (wheels and n == "opencv-python")]
    yield none_of("Python packages", missing if "keyelab" in there else None)
    yield verdict("OpenCV wheels", len(wheels) <= 1, " ".join(wheels) or "none")


def probe_check(card: Card) -> Check:
    """The probe has got an answer to everything it tried on the card."""
    reasons = sorted({card.reasons[name] for name in card.unknown})
    return verdict("probe of the card", None if reasons else True, "; ".join(reasons))


def disk_checks(workdir: Path, least_gib: float) -> Iterator[Check]:
    """Free space, and that files can be made, where sources, builds and models go."""
    above = next(place for place in (workdir, *workdir.parents) if place.exists())
    free, refused = shutil.disk_usage(above).free, ""
    try:
        with tempfile.NamedTemporaryFile(dir=above):
            pass
    except OSError as error:
        refused = str(error.strerror)
    fill = {"place": shown(workdir), "above": shown(above)}
    yield verdict("disk", free >= least_gib * 2**30, gib(free), least=least_gib, **fill)
    yield verdict("write access", not refused, refused, **fill)


def port_check(port: int) -> Check:
    """The server's TCP port is free on loopback."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
            found = f"{probe.getsockname()[1]} is free"
        except OSError as error:
            found = f"{port}: {error.strerror}"
    wanted = f"TCP port {port} free" if port else "a free TCP port"
    return verdict("port", found.endswith("is free"), found, wanted=wanted, port=port)


def opencv_check() -> Check:
    """`import cv2` works: the usual wheel needs libGL, which servers often lack."""
    try:
        import cv2
    except ImportError as error:
        return verdict("OpenCV", False, error)
    return verdict("OpenCV", True, cv2.__version__)


def proxy_check(env: Mapping[str, str]) -> Check:
    """Whether a proxy variable would send requests for this machine's server away."""
    names = sorted(n for n in env if n.lower() in ("http_proxy", "all_proxy") and env[n])
    said = ",".join(env.get(name, "") for name in ("no_proxy", "NO_PROXY"))
    spared = {host.strip().lstrip(".") for host in said.split(",")}
    good = not names or "*" in spared or {"127.0.0.1", "localhost"} <= spared
    # the value may hold a password
    return verdict("host: proxy spares loopback", good, " ".join(names))


def clock_check(now_s: float) -> Check:
    """The clock against the files of this package: one that is behind breaks TLS and records."""
    newest_s = max(path.stat().st_mtime for path in Path(__file__).parent.glob("*.py"))
    day = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now_s))
    return verdict("host: clock", now_s > newest_s - 86400, day)


def disk_speed_check(workdir: Path, size_mib: int) -> Check:
    """Write and read `size_mib` in the work folder, past the page cache; the file is removed."""
    workdir.mkdir(parents=True, exist_ok=True)
    block = os.urandom(1 << 20)
    try:
        with tempfile.TemporaryFile(dir=workdir, buffering=0) as file:
            started = time.monotonic()
            for _ in range(size_mib):
                file.write(block)
            os.fsync(file.fileno())
            write_s = time.monotonic() - started
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            file.seek(0)
            started = time.monotonic()
            while file.read(1 << 20):
                pass
            read_s = time.monotonic() - started
    except OSError as error:
        return verdict("disk: speed", None, f"{shown(workdir)}: {error.strerror}", least=SLOW_MB_S)
    speeds = [size_mib * 2**20 / 1e6 / max(s, 1e-9) for s in (write_s, read_s)]
    text = f"{speeds[0]:,.0f} MB/s written, {speeds[1]:,.0f} MB/s read ({size_mib} MiB)"
    return verdict("disk: speed", min(speeds) >= SLOW_MB_S, text, least=SLOW_MB_S)


def kernel_checks(cards: Cards) -> Iterator[Check]:
    """What makes cards slow without a word: NUMA balancing, ACS, governor, pages, locked memory."""
    root = cards.seen.root
    balancing = sysfs.whole(root / "proc/sys/kernel/numa_balancing")
    yield verdict("host: NUMA balancing", None if balancing is None else not balancing, balancing)
    if len(cards.devices) > 1:
        yield none_of("host: ACS", answers.acs_on(cards.seen.said["lspci"]))
    # no check where the kernel does not scale frequencies
    paths = (root / "sys/devices/system/cpu").glob("cpu[0-9]*/cpufreq/scaling_governor")
    if names := {sysfs.text(path) or "unknown" for path in paths}:
        good = None if "unknown" in names else names == {"performance"}
        yield verdict("host: CPU governor", good, " ".join(sorted(names)))
    enabled = sysfs.text(root / "sys/kernel/mm/transparent_hugepage/enabled") or ""
    lines = re.findall(r"^(\w+):\s+(\d{1,15})", sysfs.text(root / "proc/meminfo") or "", re.M)
    memory, chosen = {name: int(size) for name, size in lines}, re.search(r"\[(\w+)\]", enabled)
    good, text = None, ""
    if chosen and {"MemTotal", "HugePages_Total", "Hugepagesize"} <= memory.keys():
        reserved_kib = memory["HugePages_Total"] * memory["Hugepagesize"]
        good = chosen[1] != "never" and reserved_kib < memory["MemTotal"] / 2
        text = f"{chosen[1]}; {gib(reserved_kib * 1024)} reserved"
    yield verdict("host: huge pages", good, text)
    soft = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]
    yield verdict("host: locked memory", soft == resource.RLIM_INFINITY, f"{soft // 1024} KiB")


def _plain(requirement: str) -> str:
    """The name of a package in a requirement, as one of its spellings."""
    return re.split(r"[^\w.-]", requirement)[0].lower().replace("_", "-")
