"""Facts: what a phase leaves for the next ones, as facts/<phase>.json in the run folder.

Paths are written as `files.shown` gives them and read with `files.located`. A fact that could
not be read is None.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from keyelab.errors import KeyelabError, NeedsPhase
from keyelab.files import read_json, shown

F = TypeVar("F", bound="Facts")


class Facts(BaseModel):
    """Base of the facts of each phase."""

    model_config = ConfigDict(extra="forbid")


class FileFact(Facts):
    """A file and its digest."""

    path: str
    sha256: str
    size_bytes: int


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


class ModelFacts(Facts):
    """02_model_fetch: a model and its projector, proven to be a pair."""

    model: FileFact
    mmproj: FileFact
    source: str
    architecture: str
    projector: str
    parameters: int
    quantization: str
    context_tokens: int
    embedding_width: int
    chat_template: bool


class HeaderFacts(Facts):
    """03_header_fixes: an include folder to put before the toolkit's own; '' when none.

    `originals` are the SHA-256 of the vendor's files that were corrected, `backup` is the folder
    that holds them when they were corrected in place.
    """

    overlay: str = ""
    files: list[str] = []
    reason: str = ""
    originals: dict[str, str] = {}
    backup: str = ""


class PatchFact(Facts):
    """One rule of a recipe, where it changed the tree, and the operations that test it."""

    id: str
    title: str
    files: list[str]
    replacements: int
    verify: list[str] = []


class SourceFacts(Facts):
    """04_source_patch: the tree to build, by digest before and after.

    The recipe asks for `cmake` entries in a HIP build, makes the tensor types `weights` right
    (['any']: all), and is served with `flash_attention`; `gate` are the operations to test.
    """

    tree: str
    origin: str
    version: str
    recipe: str
    cmake: dict[str, str] = {}
    weights: list[str] = ["any"]
    flash_attention: str = "auto"
    gate: list[str] = []
    base_sha256: str
    tree_sha256: str
    patches: list[PatchFact]


class BuildFacts(Facts):
    """05_build: the binaries and what they were made from."""

    build_dir: str
    key: str
    reused: bool
    backend: str
    gpu_targets: str
    build_type: str
    version: str
    backends: list[str]
    command: str
    binaries: dict[str, FileFact]


class ServerFact(Facts):
    """A server that answers, and what its log says of it (MiB by buffer name; None unknown).

    `api_key_file` names the file of its key ('': LLAMA_API_KEY, or none); no key is a fact.
    `devices` are llama.cpp's accelerators that hold weights or states, `graph_splits` the parts
    of its graph: one a device, and one on the CPU.
    """

    url: str
    pid: int
    state_file: str
    log: str
    alias: str
    build_info: str
    model_path: str
    context_tokens: int | None
    slots: int | None
    ready_s: float
    command: str
    api_key_file: str = ""
    flash_attention: bool | None = None
    devices: list[str] = []
    buffers_mib: dict[str, float] = {}
    projector_backend: str | None = None
    graph_splits: int | None = None


class ServeFacts(ServerFact):
    """06_serve: the first server, and all of them."""

    servers: list[ServerFact] = []


class FrameFact(Facts):
    """One frame sent: where it stands in the video (seconds; None unknown) and its JPEG size."""

    index: int
    requested_s: float | None
    time_s: float | None
    jpeg_bytes: int


class AnswerFact(Facts):
    """A question and what came back: text, clocks of the client (s), the server's own numbers.

    `error` says why there is no answer.
    """

    prompt: str
    answer: str
    reasoning: str
    finish_reason: str | None
    ttft_s: float | None
    total_s: float
    usage: dict[str, Any]
    timings: dict[str, Any]
    error: str = ""


class ClipFact(AnswerFact):
    """A clip of clips_dir: what its answer had to contain, and whether it did (None: no answer)."""

    name: str
    expected: list[str]
    right: bool | None


class VideoFacts(AnswerFact):
    """07_video_test: what was asked and answered; `more` are further questions on the same video.

    `mode` is frames or native; `tokens_per_frame` is the server's count, None when it was not
    asked.
    """

    video: FileFact
    duration_s: float | None
    mode: str
    frames: list[FrameFact]
    coverage: float | None
    tokens_per_frame: int | None
    expected: list[str]
    more: list[AnswerFact] = []
    clips: list[ClipFact] = []


class PerfFacts(Facts):
    """08_perf_analysis: one row a finished task, and the load time (seconds)."""

    log: str
    load_s: float | None
    tasks: list[dict[str, Any]]
    article_tasks: list[dict[str, Any]]
    decode_tps: float | None
    prefill_tps: float | None


def read_facts(folder: Path, phase: str, kind: type[F]) -> F:
    """The facts of `phase` in a run folder.

    Raises NeedsPhase when the phase has not left any, KeyelabError when they do not fit.
    """
    path = folder / "facts" / f"{phase}.json"
    if not path.exists():
        raise NeedsPhase(
            f"expected the facts of {phase} at {shown(path)}, found none",
            f"run that phase first: keyelab run --to {phase}, or its notebook",
        )
    content = read_json(path)
    try:
        return kind.model_validate(content["facts"])
    except (KeyError, TypeError, ValidationError) as error:
        raise KeyelabError(
            f"expected the facts of {phase} in {shown(path)}, found: {str(error).splitlines()[0]}",
            f"run that phase again: keyelab run --from {phase}",
        ) from None
