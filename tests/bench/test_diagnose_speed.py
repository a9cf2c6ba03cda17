"""A build log of 200 MB is read in a second or two, and the memory does not grow with it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = pytest.mark.bench

HEALTHY = Path(__file__).parents[1] / "data" / "diagnose" / "healthy" / "build_cpu.log"
LEAST_MB_S, MOST_MB = 100, 100
READ = """
import re, sys, time
from pathlib import Path
from keyelab.diagnose import diagnose
diagnose(b"")  # imports and the catalogue
log = Path(sys.argv[1])
best = 0.0
for _ in range(3):
    started = time.perf_counter()
    report = diagnose(log)
    best = max(best, log.stat().st_size / 1e6 / (time.perf_counter() - started))
# not ru_maxrss: that counts what the parent held when it forked
peak = int(re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1]) / 1024
print(best, peak, report.lines, *(found.entry.id for found in report.causes))
"""


def test_200_mb_at_100_mb_a_second_in_100_mb_of_memory(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    log = tmp_path / "build.log"
    block = HEALTHY.read_bytes()
    count = 200_000_000 // len(block) + 1
    with log.open("wb") as stream:
        for number in range(count):
            stream.write(block)
            if number == count // 2:
                stream.write(b"clang++: error: unable to execute command: Killed\n")
                flood = (b"ld: undefined reference to `f%d'\n" % n for n in range(900))
                stream.writelines(flood)
    argv = [sys.executable, "-c", READ, str(log)]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    speed, peak, lines, *found = done.stdout.split()
    record_property("MB/s", speed)
    record_property("peak MB", peak)
    print(f"{float(speed):.0f} MB/s, peak {float(peak):.0f} MB")
    assert int(lines) == count * block.count(b"\n") + 901
    assert found == ["compiler-killed", "undefined-symbol"]
    assert float(speed) > LEAST_MB_S
    assert float(peak) < MOST_MB
