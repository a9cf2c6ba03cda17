"""What this machine's memory and arithmetic can do, measured in a process of its own.

The number of BLAS threads is settled when numpy is loaded, so the measurement is a program:
`python -m keyelab.perf.machine THREADS WORKING_SET_BYTES` prints one JSON object.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from keyelab import shell

_ARRAY = 1 << 25  # bytes of each of a thread's arrays: beyond the caches
_SIDE = 1024  # of the matrices


@dataclass(frozen=True)
class Machine:
    """The roofs: bytes/s from memory, bytes/s for a working set that may fit into a cache, FLOP/s.

    None is not known; `source` says where the numbers come from.
    """

    memory_bytes_per_s: float | None
    near_bytes_per_s: float | None
    flops_per_s: float | None
    source: str


def roofs(
    backend: str,
    threads: str,
    working_set_bytes: float,
    given_speeds: tuple[float, float],
    log: Path,
) -> Machine:
    """Given speeds (GB/s, TFLOP/s) where there are any, else measured on a CPU, else unknown.

    `threads` is the server's, as its command has it; empty or no number is all cores.
    """
    if any(given_speeds) or backend != "cpu":
        return given(*given_speeds)
    return measure(int(threads) if threads.isdigit() else 0, working_set_bytes, log)


def measure(threads: int, working_set_bytes: float, log: Path) -> Machine:
    """Measure with so many threads (0: all); about two seconds."""
    env = shell.environment(
        extra={name: str(threads) for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS")}
        if threads
        else {}
    )
    argv = [
        sys.executable, "-m", "keyelab.perf.machine", str(threads or _cores()),
        str(int(working_set_bytes)),
    ]  # fmt: skip
    done = shell.run(argv, env=env, log=log, timeout_s=120)
    told = json.loads(done.output.strip().splitlines()[-1])
    return Machine(
        told["memory"], told["near"], told["flops"],
        f"measured here with {threads or _cores()} threads: numpy's a + b, and a 1,024 x 1,024 "
        "float32 product",
    )  # fmt: skip


def given(memory_gb_per_s: float, matrix_tflops: float) -> Machine:
    """Roofs from parameters; 0 is not known."""
    known = 1e9 * memory_gb_per_s or None
    return Machine(known, known, 1e12 * matrix_tflops or None, "from the parameters, 0 unknown")


def numa_nodes() -> int | None:
    """Memory nodes of this machine; None where the kernel does not say."""
    return len(list(Path("/sys/devices/system/node").glob("node[0-9]*"))) or None


def _cores() -> int:
    import os

    return len(os.sched_getaffinity(0))


def _best(work: Callable[[], object], least_s: float = 0.4) -> float:
    """The shortest of the times that fit into a while: others disturb, nothing makes it faster."""
    work()
    best, until = float("inf"), time.perf_counter() + least_s
    while time.perf_counter() < until:
        started = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - started)
    return best


def _bandwidth(threads: int, array_bytes: int) -> float:
    """Bytes per second of c = a + b: two arrays read and one written, by each thread."""
    import numpy as np

    count = max(1024, array_bytes // 4)
    sets = [tuple(np.ones(count, np.float32) for _ in range(3)) for _ in range(threads)]
    inner = max(1, (1 << 22) // (4 * count))  # of small arrays several times, for the clock

    def one(arrays: tuple[np.ndarray, ...]) -> None:
        for _ in range(inner):
            np.add(arrays[0], arrays[1], out=arrays[2])

    with ThreadPoolExecutor(threads) as pool:
        took_s = _best(lambda: list(pool.map(one, sets)))
    return threads * inner * 3 * 4 * count / took_s


def _main(threads: int, working_set_bytes: int) -> None:
    import numpy as np

    matrix = np.ones((_SIDE, _SIDE), np.float32)
    flops = 2 * _SIDE**3 / _best(lambda: matrix @ matrix)
    near = _bandwidth(threads, max(4096, min(_ARRAY, working_set_bytes // (3 * threads))))
    print(json.dumps({"memory": _bandwidth(threads, _ARRAY), "near": near, "flops": flops}))


if __name__ == "__main__":
    _main(int(sys.argv[1]), int(sys.argv[2]))
