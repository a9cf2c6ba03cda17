"""Half a gigabyte of a server's log is read at tens of MB a second, and the memory does not grow.

Two kinds: all that b10019 says at -lv 4 about three small requests with images, again and again
(a real log, its clock and task ids moved on), and nothing but lines of decoding progress, the
densest that a server writes. CPU seconds of one core are counted, so that other work on the machine
disturbs little.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.bench

REAL = Path(__file__).parents[1] / "data" / "perf" / "b10019_cpu_demo.log"
READ = """
import re, sys, time
from pathlib import Path
from keyelab.perf.reader import read
from keyelab.perf.tables import Collector, read_tables

class Nothing:
    begin = task = event = end = lambda self, *told: None

def peak_mb():  # not ru_maxrss: that counts what the parent held when it forked
    return int(re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1]) / 1024

path = Path(sys.argv[1])
with Path(sys.argv[2]).open("rb") as stream:
    read(stream, Nothing())  # imports and first blocks
before = peak_mb()
with path.open("rb") as stream:
    alone = 1e9
    for _ in range(2):
        stream.seek(0)
        started = time.process_time()
        read(stream, Nothing())
        alone = min(alone, time.process_time() - started)
grown = peak_mb() - before
started = time.process_time()
tables = read_tables([path])
whole = time.process_time() - started
size_mb = path.stat().st_size / 1e6
print(size_mb / alone, size_mb / whole, grown, len(tables.servers), len(tables.tasks),
      len(tables.samples))
"""


def measured(log: Path) -> list[float]:
    argv = [sys.executable, "-c", READ, str(log), str(REAL)]
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


def test_500_mb_of_requests(tmp_path: Path, record_property: Callable[[str, object], None]) -> None:
    log = tmp_path / "server.log"
    with log.open("wb") as stream:
        stream.writelines(requests(500_000_000))
    alone, whole, grown, servers, tasks, _ = measured(log)
    print(f"parser {alone:.0f} MB/s, with tables {whole:.0f} MB/s, {grown:.1f} MB more memory")
    record_property("MB/s", alone)
    assert servers == 1
    assert tasks > 100_000
    assert grown < 8
    assert alone > 30  # the target is 40 on an idle core


def test_50_mb_of_nothing_but_progress(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    log = tmp_path / "server.log"
    with log.open("wb") as stream:
        stream.writelines(progress(50_000_000))
    alone, whole, _, _, tasks, samples = measured(log)
    print(f"parser {alone:.0f} MB/s, with tables {whole:.0f} MB/s")
    record_property("MB/s", alone)
    assert (tasks, samples) == (1, log.read_bytes().count(b"n_decoded"))
    assert alone > 10
