"""What a server's log says of its start: where weights, states and projector went.

The lines are those of llama-server b10019 to b11434 at --log-verbosity 4; what no line says is
None or empty. "offloaded 4/4 layers to GPU" is no proof: b10019 prints it with `--device none`
as well (seen on a CUDA build). The buffers are.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

_BUFFER = re.compile(r"(\w+): +(\S+) +(model|KV|RS|compute) buffer size = +([\d.]+) MiB")
_LAYERS = re.compile(r"offloaded (\d+)/(\d+) layers to GPU")
_SPLITS = re.compile(
    r"graph splits = (\d+)(?: \(with bs=\d+\), (\d+) \(with bs=1\))?(, nodes = \d+)?"
    r"|graph(?: \([^)]*\))?: nodes = [\d/ ]+, splits = (\d+)(?: / (\d+))?"  # b11434
)
_PROJECTOR = re.compile(r"CLIP using (\S+) backend")
_ATTENTION = re.compile(
    r"flash_attn +[=:] +(\w+)|: Flash Attention (?:.*set to )?(enabled|disabled)"
)
_PROJECTOR_FILE = re.compile(r"loaded multimodal model, '(.+)'")
_SHRUNK = re.compile(r"context size reduced from (\d+) to (\d+)")
_FALLBACK = re.compile(
    r"(layer \d+ is assigned to device \S+ but .+ is assigned to device \S+)"
    r"|((?:flash attention|KV offload\w*) (?:is )?not supported by .+)"
    r"|(falling back to .+)|warmup: +([A-Z_]+): type = "
)
_HOST = re.compile(r"CPU|AMX|BLAS|\S+_Host$")


@dataclass
class Startup:
    """Buffers in MiB by name (weights, states, compute), and what was chosen while loading."""

    weights_mib: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    state_mib: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    compute_mib: dict[str, float] = field(default_factory=dict)
    projector_mib: dict[str, float] = field(default_factory=dict)
    layers: tuple[int, int] | None = None
    projector: str | None = None
    projector_file: str | None = None
    flash_attention: bool | None = None
    splits: int | None = None
    projector_splits: int | None = None
    shrunk: tuple[int, int] | None = None
    fallbacks: list[str] = field(default_factory=list)

    def devices(self) -> list[str]:
        """Accelerators that hold weights or states, by their buffers' names."""
        return sorted(name for name in {*self.weights_mib, *self.state_mib} if not is_host(name))

    def buffers_mib(self) -> dict[str, float]:
        """Everything that was allocated, by buffer name."""
        parts = (self.weights_mib, self.state_mib, self.compute_mib, self.projector_mib)
        names = sorted({name for part in parts for name in part})
        return {name: round(sum(part.get(name, 0.0) for part in parts), 2) for name in names}


def is_host(buffer: str) -> bool:
    """Whether a buffer lies in the memory of the host, as CPU_Mapped and ROCm_Host do."""
    return _HOST.match(buffer) is not None


def read(lines: Iterable[str]) -> Startup:
    """Read a log up to the line that says that the server listens."""
    found = Startup()
    for line in lines:
        if "listening on http" in line:
            break
        if "buffer size" in line:
            _buffer(line, found)
        elif match := _SPLITS.search(line):
            most = max(int(number) for number in match.group(1, 2, 4, 5) if number)
            if match[3]:
                found.projector_splits = most
            else:
                found.splits = most
        elif match := _LAYERS.search(line):
            found.layers = int(match[1]), int(match[2])
        elif match := _PROJECTOR.search(line):
            found.projector = match[1]
        elif match := _ATTENTION.search(line):
            word = match[1] or match[2]
            found.flash_attention = {"enabled": True, "disabled": False}.get(word)
        elif match := _PROJECTOR_FILE.search(line):
            found.projector_file = match[1]
        elif match := _SHRUNK.search(line):
            found.shrunk = int(match[1]), int(match[2])
        if match := _FALLBACK.search(line):
            found.fallbacks.append(next(text for text in match.groups() if text).strip())
    return found


def _buffer(line: str, found: Startup) -> None:
    match = _BUFFER.search(line)
    if match is None:
        return
    name, size = match[2], float(match[4])
    if match[3] == "model":
        found.weights_mib[name] += size
    elif match[3] != "compute":
        found.state_mib[name] += size
    elif match[1].endswith("compute_meta"):  # the projector's; reserved again, the last one counts
        found.projector_mib[name] = size
    else:
        found.compute_mib[name] = size
