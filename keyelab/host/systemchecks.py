"""Checks of the system around the cards: kernel settings, limits, proxies, clock, disk."""

from __future__ import annotations

import os
import re
import resource
import time
from collections.abc import Mapping
from pathlib import Path

from keyelab.checks import Check
from keyelab.files import shown
from keyelab.host import lspci, sysfs
from keyelab.host.observe import Seen
from keyelab.host.verdict import verdict

SLOW_MB_S = 200


def any_host_checks(env: Mapping[str, str]) -> list[Check]:
    """What matters on every machine: proxies that catch loopback, and the clock."""
    return [proxy_check(env), clock_check(time.time())]


def card_host_checks(seen: Seen, cards: int) -> list[Check]:
    """What matters where cards are: NUMA balancing, ACS, governor, huge pages, locked memory."""
    balancing = sysfs.whole(seen.root / "proc/sys/kernel/numa_balancing")
    found = [
        verdict(
            "host: NUMA balancing",
            None if balancing is None else balancing == 0,
            "cannot be read" if balancing is None else str(balancing),
        )
    ]
    if cards > 1:
        on = lspci.acs_on(seen.text("lspci-vvv"))
        text = "lspci shows no ACS control to this user" if on is None else " ".join(on) or "none"
        found.append(verdict("host: ACS", None if on is None else not on, text))
    return [*found, *governor_checks(seen.root), *page_checks(seen.root), memlock_check()]


def governor_checks(root: Path) -> list[Check]:
    """The governors of all CPUs; no check where the kernel does not scale frequencies."""
    paths = (root / "sys/devices/system/cpu").glob("cpu[0-9]*/cpufreq/scaling_governor")
    names = {sysfs.text(path) or "unknown" for path in paths}
    good = None if "unknown" in names else names == {"performance"}
    return [verdict("host: CPU governor", good, " ".join(sorted(names)))] if names else []


def page_checks(root: Path) -> list[Check]:
    """Transparent huge pages, and memory that is reserved for explicit ones."""
    chosen = re.search(
        r"\[(\w+)\]", sysfs.text(root / "sys/kernel/mm/transparent_hugepage/enabled") or ""
    )
    memory = dict(
        re.findall(r"^(\w+):\s+(\d{1,15})", sysfs.text(root / "proc/meminfo") or "", re.M)
    )
    if not chosen or not {"MemTotal", "HugePages_Total", "Hugepagesize"} <= memory.keys():
        return [verdict("host: huge pages", None, "cannot be read")]
    reserved = int(memory["HugePages_Total"]) * int(memory["Hugepagesize"])
    good = chosen[1] != "never" and reserved < int(memory["MemTotal"]) / 2
    return [verdict("host: huge pages", good, f"{chosen[1]}; {reserved / 2**20:.1f} GiB reserved")]


def memlock_check() -> Check:
    """How much memory this process may lock."""
    soft = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]
    free = soft == resource.RLIM_INFINITY
    return verdict("host: locked memory", free, "unlimited" if free else f"{soft // 1024} KiB")


def proxy_check(env: Mapping[str, str]) -> Check:
    """Whether a proxy variable would send requests for this machine's server away."""
    names = [n for n in env if n.lower() in ("http_proxy", "all_proxy") and env[n]]
    spared = {
        host.strip().lstrip(".")
        for name in ("no_proxy", "NO_PROXY")
        for host in env.get(name, "").split(",")
    }
    good = not names or "*" in spared or {"127.0.0.1", "localhost"} <= spared
    # the value may hold a password
    text = f"{' '.join(sorted(names))} set, NO_PROXY does not name both" if not good else "they are"
    return verdict("host: proxy spares loopback", good, text)


def clock_check(now_s: float) -> Check:
    """The clock against the files of this package: one that is behind breaks TLS and records."""
    newest_s = max(path.stat().st_mtime for path in Path(__file__).parent.glob("*.py"))
    day = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now_s))
    return verdict("host: clock", now_s > newest_s - 86400, day)


def disk_speed_check(workdir: Path, size_mib: int) -> Check:
    """Write and read `size_mib` in the work folder, past the page cache; the file is removed."""
    workdir.mkdir(parents=True, exist_ok=True)
    path = workdir / f".keyelab-speed-{os.getpid()}"
    block = os.urandom(1 << 20)
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            started = time.monotonic()
            for _ in range(size_mib):
                os.write(descriptor, block)
            os.fsync(descriptor)
            write_s = time.monotonic() - started
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            os.lseek(descriptor, 0, os.SEEK_SET)
            started = time.monotonic()
            while os.read(descriptor, 1 << 20):
                pass
            read_s = time.monotonic() - started
        finally:
            os.close(descriptor)
            path.unlink()
    except OSError as error:
        return verdict("disk: speed", None, f"{shown(workdir)}: {error.strerror}", least=SLOW_MB_S)
    speeds = [size_mib * 2**20 / 1e6 / max(s, 1e-9) for s in (write_s, read_s)]
    text = f"{speeds[0]:,.0f} MB/s written, {speeds[1]:,.0f} MB/s read ({size_mib} MiB)"
    return verdict("disk: speed", min(speeds) >= SLOW_MB_S, text, least=SLOW_MB_S)
