"""The command line of the server, made from typed parameters and the facts before."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from keyelab.errors import UsageError
from keyelab.facts import BuildFacts, ModelFacts, SourceFacts
from keyelab.files import located, project_root, sha256_json
from keyelab.params import Serve
from keyelab.shell import quoted

TRACE = "4"  # image-encode, device and cache lines appear from this verbosity on (b10019)
_OWNED = {
    "-m --model": "model_fetch.model_file",
    "-mm --mmproj": "model_fetch.mmproj_file",
    "--host": "serve.host",
    "--port": "serve.port",
    "-a --alias": "serve.alias",
    "-c --ctx-size": "serve.context_tokens",
    "-np --parallel": "serve.parallel",
    "-t --threads": "serve.threads",
    "-fa --flash-attn": "serve.flash_attention",
    "-cram --cache-ram": "serve.cache_ram_mib",
    # a key among the words would stand in records and process lists
    "--api-key": "the environment variable LLAMA_API_KEY",
}
_DEVICE_PREFIXES = ("HIP_", "ROCR_", "HSA_", "CUDA_", "GGML_")


@dataclass(frozen=True)
class ServerPlan:
    """A server before it is started; `params.port` 0 means any free one."""

    params: Serve
    program: Path
    options: tuple[str, ...]
    model: Path
    build_info: str
    key: str

    def argv(self, port: int) -> list[str]:
        """The words to run, listening on `port`."""
        words = ["--host", self.params.host, "--port", str(port)]
        return [str(self.program), *self.options, *words]

    def url(self, port: int) -> str:
        """Where a client on this machine reaches it."""
        host = self.params.host
        host = "127.0.0.1" if host in ("0.0.0.0", "::", "") else host
        return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    def command(self, port: int) -> str:
        """One line to paste at the root of the checkout."""
        return quoted(self.argv(port)).replace(f"{project_root()}/", "")


def make(params: Serve, build: BuildFacts, model: ModelFacts, env: Mapping[str, str]) -> ServerPlan:
    """Plan the server; raises UsageError for an extra argument that a parameter sets."""
    model_path = located(model.model.path)
    options = _options(params, str(model_path), str(located(model.mmproj.path)))
    program = located(build.binaries["llama-server"].path)
    key = sha256_json(
        {
            "argv": [str(program), *options, params.host],
            "binaries": {name: fact.sha256 for name, fact in build.binaries.items()},
            "model": [model.model.sha256, model.mmproj.sha256],
            "environment": {k: v for k, v in env.items() if k.startswith(_DEVICE_PREFIXES)},
        }
    )
    return ServerPlan(params, program, tuple(options), model_path, build.version, key)


def for_recipe(params: Serve, backend: str, source: SourceFacts) -> Serve:
    """The parameters with flash attention off where the recipe of a GPU build says so.

    `auto` becomes off; raises UsageError for `on`, whose kernels nothing has proven.
    """
    if backend == "cpu" or source.flash_attention != "off" or params.flash_attention == "off":
        return params
    if params.flash_attention == "on":
        raise UsageError(
            f"expected serve.flash_attention off, as the recipe {source.recipe} asks for: it does "
            "not make those kernels right for the card and the kernel gate left them out; found on",
            "keyelab run --from serve --set serve.flash_attention=off, or take a recipe that does: "
            "keyelab run --from source_patch --set source_patch.recipe=gcn",
        )
    return params.model_copy(update={"flash_attention": "off"})


def sketch(params: Serve) -> str:
    """The command of a dry run: no file was looked at."""
    options = _options(params, "MODEL.gguf", "PROJECTOR.gguf")
    return quoted(["llama-server", *options, "--host", params.host, "--port", str(params.port)])


def example(plan: ServerPlan, port: int) -> str:
    """Commands to talk to a server and to stop it."""
    body = {"model": plan.params.alias, "messages": [{"role": "user", "content": "Hello"}]}
    ask = ["curl", "--noproxy", "*", f"{plan.url(port)}/v1/chat/completions"]
    ask += ["-H", "Content-Type: application/json", "-d", json.dumps(body)]
    return f"{quoted(ask)}\nkeyelab status\nkeyelab stop --port {port}\n"


def _options(params: Serve, model: str, mmproj: str) -> list[str]:
    for word in params.extra_args:
        owner = next((o for flags, o in _OWNED.items() if word.split("=")[0] in flags.split()), "")
        if owner:
            raise UsageError(
                f"serve.extra_args holds {word.split('=')[0]}, which {owner} sets",
                f"take it out and set {owner}",
            )
    threads = ["--threads", str(params.threads)] if params.threads else []
    return [
        *("--model", model, "--mmproj", mmproj, "--alias", params.alias),
        *("--ctx-size", str(params.context_tokens), "--parallel", str(params.parallel)),
        *("--flash-attn", params.flash_attention, "--cache-ram", str(params.cache_ram_mib)),
        *(*threads, "--log-verbosity", TRACE),
        *params.extra_args,
    ]
