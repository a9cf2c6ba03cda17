"""The machine itself: CPU, memory, disk, operating system."""

from __future__ import annotations

import os
import platform
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from keyelab.files import located


@dataclass(frozen=True)
class Machine:
    """What was read; None where it could not be."""

    os: str
    kernel: str
    cpu: str | None
    cores: int
    memory_bytes: int
    available_bytes: int
    python: str


def root(named: str) -> Path:
    """The folder below which /sys, /proc and /dev are read."""
    return located(named) if named else Path("/")


def read() -> Machine:
    """Read this machine."""
    import psutil

    memory = psutil.virtual_memory()
    return Machine(
        os=os_name(_text("/etc/os-release")) or platform.system(),
        kernel=platform.release(),
        cpu=cpu_name(_text("/proc/cpuinfo")),
        cores=len(os.sched_getaffinity(0)),
        memory_bytes=int(memory.total),
        available_bytes=int(memory.available),
        python=platform.python_version(),
    )


def cpu_name(cpuinfo: str) -> str | None:
    """The first model name in the text of /proc/cpuinfo."""
    found = re.search(r"^model name\s*:\s*(.+)$", cpuinfo, re.MULTILINE)
    return found.group(1).strip() if found else None


def os_name(os_release: str) -> str | None:
    """PRETTY_NAME in the text of /etc/os-release."""
    found = re.search(r'^PRETTY_NAME="?([^"\n]+)"?$', os_release, re.MULTILINE)
    return found.group(1) if found else None


def rows(host: Machine) -> list[dict[str, Any]]:
    """The machine as table rows."""
    return [
        {"fact": "operating system", "value": host.os},
        {"fact": "kernel", "value": host.kernel},
        {"fact": "CPU", "value": host.cpu},
        {"fact": "cores usable", "value": host.cores},
        {
            "fact": "memory",
            "value": f"{gib(host.memory_bytes)} ({gib(host.available_bytes)} available)",
        },
        {"fact": "Python", "value": host.python},
    ]


def gib(size_bytes: float) -> str:
    """Bytes as GiB with one decimal."""
    return f"{size_bytes / 2**30:.1f} GiB"


def _text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
