"""The command line of the server, made from typed parameters and the facts before."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from keyelab.errors import KeyelabError
from keyelab.facts import BuildFacts, FileFact, ModelFacts
from keyelab.files import located, project_root, sha256_json, shown
from keyelab.params import Serve
from keyelab.serving import flags
from keyelab.shell import quoted

TRACE = "4"  # image-encode, device and cache lines appear from this verbosity on (b10019)
_DEVICE_PREFIXES = ("HIP_", "ROCR_", "HSA_", "CUDA_", "GGML_")


@dataclass(frozen=True)
class ServerPlan:
    """A server before it is started; `port` 0 means any free one."""

    program: Path
    options: tuple[str, ...]
    host: str
    port: int
    alias: str
    model: Path
    mmproj: Path
    slots: int
    context_tokens: int
    build_info: str
    key: str

    def argv(self, port: int) -> list[str]:
        """The words to run, listening on `port`."""
        return [str(self.program), *self.options, "--host", self.host, "--port", str(port)]

    def url(self, port: int) -> str:
        """Where a client on this machine reaches it."""
        host = "127.0.0.1" if self.host in ("0.0.0.0", "::", "") else self.host
        return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    def command(self, port: int) -> str:
        """One line to paste at the root of the checkout."""
        return quoted(self.argv(port)).replace(f"{project_root()}/", "")


def make(
    params: Serve,
    build: BuildFacts,
    model: ModelFacts,
    known: Collection[str],
    env: Mapping[str, str],
) -> ServerPlan:
    """Plan the server.

    Raises UsageError for extra arguments that the binary does not take, KeyelabError when the
    model or the projector is not there in the size that was fetched.
    """
    flags.check_extra(params.extra_args, known)
    model_path, mmproj = _present(model.model, "model"), _present(model.mmproj, "projector")
    options = _options(params, model_path, mmproj, known)
    program = located(build.binaries["llama-server"].path)
    key = sha256_json(
        {
            "argv": [str(program), *options, params.host],
            "binaries": {name: fact.sha256 for name, fact in build.binaries.items()},
            "model": [model.model.sha256, model.mmproj.sha256],
            "environment": {k: v for k, v in env.items() if k.startswith(_DEVICE_PREFIXES)},
        }
    )
    return ServerPlan(
        program=program,
        options=tuple(options),
        host=params.host,
        port=params.port,
        alias=params.alias,
        model=model_path,
        mmproj=mmproj,
        slots=params.parallel,
        context_tokens=params.context_tokens,
        build_info=build.version,
        key=key,
    )


def sketch(params: Serve) -> str:
    """The command of a dry run: no file and no binary was looked at."""
    options = _options(params, "MODEL.gguf", "PROJECTOR.gguf", None)
    return quoted(["llama-server", *options, "--host", params.host, "--port", str(params.port)])


def environment(env: Mapping[str, str]) -> dict[str, str]:
    """`env` without LLAMA_ARG_…: llama-server would take flags from there, unseen."""
    return {name: value for name, value in env.items() if not name.startswith("LLAMA_ARG_")}


def _options(
    params: Serve, model: Path | str, mmproj: Path | str, known: Collection[str] | None
) -> list[str]:
    options = [
        *("--model", str(model), "--mmproj", str(mmproj)),
        *("--alias", params.alias, "--ctx-size", str(params.context_tokens)),
        *("--parallel", str(params.parallel), "--flash-attn", params.flash_attention),
    ]
    if params.threads:
        options += ["--threads", str(params.threads)]
    for flag, value in (
        ("--cache-ram", str(params.cache_ram_mib)),
        ("--log-verbosity", TRACE),
    ):
        if (known is None or flag in known) and flag not in params.extra_args:
            options += [flag, value]
    return [*options, *params.extra_args]


def _present(fact: FileFact, what: str) -> Path:
    path = located(fact.path)
    again = "fetch it again: keyelab run --from model_fetch"
    if not path.is_file():
        raise KeyelabError(f"expected the {what} at {shown(path)}, found none", again)
    size = path.stat().st_size
    if size != fact.size_bytes:
        raise KeyelabError(
            f"expected the {what} {shown(path)} to have {fact.size_bytes} bytes, found {size}",
            again,
        )
    return path
