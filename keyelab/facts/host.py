"""The machine: its cards, its tools, and what a probe saw on a card."""

from __future__ import annotations

from keyelab.facts.base import Facts

# what shows programs some cards only, by backend
VISIBLE = {"hip": "HIP_VISIBLE_DEVICES", "cuda": "CUDA_VISIBLE_DEVICES"}


class DeviceFact(Facts):
    """An accelerator, as far as it could be read.

    `index` is its place in the runtime's order, which HIP_VISIBLE_DEVICES counts by. `busy` is a
    verdict over three samples; the other readings are the last ones.
    """

    name: str | None = None
    arch: str | None = None
    memory_bytes: int | None = None
    pci_address: str | None = None
    index: int | None = None
    driver: str | None = None
    numa_node: int | None = None
    socket: int | None = None
    link: str | None = None
    memory_used_bytes: int | None = None
    use_percent: float | None = None
    temperature_c: float | None = None
    power_w: float | None = None
    mode: str | None = None
    healthy: bool | None = None
    busy: bool | None = None


class ProbeFacts(Facts):
    """What `keyelab probe` saw on the card; None is unknown.

    `default_bound_threads` is the bound that the compiler gives a kernel without one. The
    runs_… facts say whether a launch of so many threads a block ran and every thread wrote:
    `bound` is a kernel with __launch_bounds__, `flag` one compiled with
    --gpu-max-threads-per-block=1024, `plain` neither. `dot` says that the compiler knows
    __builtin_amdgcn_sdot4 and v_dot2_f32_f16 for the card and that they compute right; `gfx9` that
    it predefines __GFX9__, from which ggml's device code takes that a wavefront has 64 lanes.
    """

    arch: str | None = None
    wavefront_lanes: int | None = None
    max_block_threads: int | None = None
    shared_block_bytes: int | None = None
    default_bound_threads: int | None = None
    runs_1024_plain: bool | None = None
    runs_1024_bound: bool | None = None
    runs_1024_flag: bool | None = None
    runs_512_bound: bool | None = None
    dot: bool | None = None
    gfx9: bool | None = None
    macros: list[str] = []


class EnvFacts(Facts):
    """01_env_check: the host, its tools, and the environment that later phases run with.

    `environment` is what the toolkit's env.sh changes, and the variable that shows programs the
    `chosen` cards (PCI addresses) only; in a value, ${NAME} stands for what NAME was before.
    """

    os: str
    kernel: str
    cpu: str | None
    cores: int
    memory_bytes: int
    python: str
    cmake: str
    ninja: str
    cxx: str | None
    toolkit_root: str | None = None
    toolkit_version: str | None = None
    devices: list[DeviceFact] = []
    chosen: list[str] = []
    environment: dict[str, str] = {}
    probe: ProbeFacts | None = None
