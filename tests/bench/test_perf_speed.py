"""Half a gigabyte of a server's log is read in constant memory, at a bounded multiple of what the
plainest loop over its lines costs.

Two kinds: all that b10019 says at -lv 4 about three small requests with images, again and again
(a real log, its clock and task ids moved on), and nothing but lines of decoding progress, the
densest that a server writes. The plain loop decodes each line and searches it for the two timings
and the progress line with one regular expression, and keeps nothing; ours finds some forty
statements and follows the tasks. Both read the same file in turn, in CPU seconds of one core.
Measured on a busy machine: 7 to 8 times the plain loop.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.bench

REAL = Path(__file__).parents[1] / "data" / "perf" / "b10019_cpu_demo.log"
MOST = 14  # times the plain loop
READ = r"""
import io, re, sys, time
from pathlib import Path
from keyelab.perf.reader import read
from keyelab.perf.tables import read_tables

class Nothing:
    begin = task = event = end = lambda self, *told: None

TIMED = r"eval time = +([\d.]+) ms / +(\d+) (?:tokens|runs) .* ([\d.]+) tokens per second"
PLAIN = re.compile(
    r"slot +\S+ id +(\d+) \| task (-?\d+) \| *"
    rf"(?:(?:prompt )?{TIMED}|n_(?:decoded|gen) = +(\d+), tg = +([\d.]+) t/s)"
)

def plain(stream):
    found = 0
    for line in io.TextIOWrapper(stream, "utf-8", "replace"):
        found += PLAIN.search(line) is not None
    return found

def peak_mb():  # not ru_maxrss: that counts what the parent held when it forked
    return int(re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())[1]) / 1024

def seconds(work, path):
    with path.open("rb") as stream:
        started = time.process_time()
        work(stream)
        return time.process_time() - started

path, part = Path(sys.argv[1]), Path(sys.argv[2])
ours = lambda stream: read(stream, Nothing())
seconds(ours, part)  # imports and first blocks
before = peak_mb()
whole_s = seconds(ours, path)
grown = peak_mb() - before
pairs = [(seconds(ours, part), seconds(plain, part)) for _ in range(5)]
ratio = sorted(own / other for own, other in pairs)[2]
tables = read_tables([part])
print(ratio, path.stat().st_size / 1e6 / whole_s, grown, len(tables.servers), len(tables.tasks),
      len(tables.samples))
"""


def measured(log: Path, part: Path) -> list[float]:
    argv = [sys.executable, "-c", READ, str(log), str(part)]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    return [float(word) for word in done.stdout.split()]


def requests(least_bytes: int) -> Iterator[bytes]:
    content = REAL.read_bytes()
    start, end = content.index(b"0.03.345.010"), content.index(b"0.03.539.229")
    yield content[:start]
    body, written, number = content[start:end].replace(b"0.03.", b"@.03."), 0, 0
    while written < least_bytes:
        said = body.replace(b"@.", b"%d." % (number + 1))
        for place, task in enumerate((b"task 0 ", b"task 11 ", b"task 21 ")):
            said = said.replace(task, b"task %d " % (3 * number + place))
        written, number = written + len(said), number + 1
        yield said


def progress(least_bytes: int) -> Iterator[bytes]:
    yield b"0.01.000.000 I slot launch_slot_: id  0 | task 0 | processing task, is_child = 0\n"
    written, number = 0, 0
    while written < least_bytes:
        number += 1
        line = b"%d.%02d.000.000 I slot print_timing: id  0 | task 0 | n_decoded = %6d, "
        line %= (number * 3 // 60 + 1, number * 3 % 60, 100 + 11 * number)
        line += b"tg =   3.44 t/s, tg_3s =   3.58 t/s\n"
        written += len(line)
        yield line


def written(path: Path, lines: Iterator[bytes]) -> Path:
    with path.open("wb") as stream:
        stream.writelines(lines)
    return path


def test_500_mb_of_requests(tmp_path: Path, record_property: Callable[[str, object], None]) -> None:
    log = written(tmp_path / "server.log", requests(500_000_000))
    part = written(tmp_path / "part.log", requests(20_000_000))
    ratio, speed, grown, servers, tasks, _ = measured(log, part)
    print(f"{ratio:.2f} times the plain loop's time ({speed:.0f} MB/s), {grown:.1f} MB more memory")
    record_property("times a plain loop", ratio)
    assert servers == 1
    assert tasks > 1000
    assert grown < 8
    assert ratio < MOST


def test_10_mb_of_nothing_but_progress(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    log = written(tmp_path / "server.log", progress(10_000_000))
    ratio, speed, _, _, tasks, samples = measured(log, log)
    print(f"{ratio:.2f} times the plain loop's time ({speed:.0f} MB/s)")
    record_property("times a plain loop", ratio)
    assert (tasks, samples) == (1, log.read_bytes().count(b"n_decoded"))
    assert ratio < MOST
