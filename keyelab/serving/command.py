"""The command line of the server, made from typed parameters and the facts before."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from keyelab import apikey
from keyelab.errors import UsageError
from keyelab.facts import VISIBLE, BuildFacts, EnvFacts, ModelFacts, SourceFacts
from keyelab.files import located, project_root, sha256_json, shown
from keyelab.params import Serve
from keyelab.serving import cards, combination, environment, exposure, flags, occupant, words
from keyelab.serving.words import Words
from keyelab.shell import quoted

_DEVICE_PREFIXES = ("HIP_", "ROCR_", "HSA_", "CUDA_", "GGML_", "MTMD_", "OMP_")


@dataclass(frozen=True)
class ServerPlan:
    """A server before it is started; `params.port` 0 means any free one.

    `params` are those of this replica. `env` is the whole environment it is started with, and may
    hold an API key; `cards` are PCI addresses (the runtime's numbers where no address is known).
    """

    params: Serve
    program: Path
    options: tuple[str, ...]
    model: Path
    mmproj: Path
    build_info: str
    key: str
    backend: str = "cpu"
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    cards: tuple[str, ...] = ()
    replica: int = 0
    table: tuple[Words, ...] = field(default=(), repr=False)

    def argv(self, port: int) -> list[str]:
        """The words to run, listening on `port`."""
        words = ["--host", self.params.host, "--port", str(port)]
        return [str(self.program), *self.options, *words]

    def command(self, port: int) -> str:
        """One line to paste at the root of the checkout."""
        names = [name for name in VISIBLE.values() if name in self.env]
        before = [f"{name}={self.env[name]}" for name in names]
        return quoted([*before, *self.argv(port)]).replace(f"{project_root()}/", "")


def plans(
    params: Serve,
    env: Mapping[str, str],
    host: EnvFacts,
    model: ModelFacts,
    source: SourceFacts,
    build: BuildFacts,
) -> list[ServerPlan]:
    """Plan one server a replica, in order; `env` is the environment that programs get.

    Asks the binary for its flags. Raises UsageError for flags that it does not have, settings that
    cannot work together, cards that cannot be shared, a key file that is not private, and an open
    address without a key.
    """
    source.require_weights(model, build.backend)
    params = for_recipe(params, build.backend, source)
    exposure.require_key(params)
    env = environment.chosen(env, params.api_key_file)
    program = located(build.binaries["llama-server"].path)
    offer = flags.offered(program, build.version, env)
    extra = words.extra(params.extra_args, offer)
    combination.refuse(combination.Case(params, build.backend, model, source, extra))
    if params.devices:
        words.require_devices(params.devices, flags.devices(program, env))
    made = []
    for number, share in enumerate(cards.shares(params, build.backend, host, model, env)):
        port = params.port + number if params.port else 0
        own = params.model_copy(update={"port": port, "threads": share.threads})
        table = words.chosen(own, located(model.model.path), located(model.mmproj.path), offer)
        options = tuple(word for row in table for word in row.words)
        seen = {**env, **share.environment}
        made.append(
            ServerPlan(
                params=own,
                program=program,
                options=options,
                model=located(model.model.path),
                mmproj=located(model.mmproj.path),
                build_info=build.version,
                key=_key([str(program), *options, own.host], number, own, build, model, seen),
                backend=build.backend,
                env=seen,
                cards=share.cards,
                replica=number,
                table=tuple(table),
            )
        )
    return made


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


def sketch(params: Serve) -> list[str]:
    """The command of each replica in a dry run: no file was looked at and no binary asked."""
    start = ["llama-server", *(word for row in _sketched(params) for word in row.words)]
    ports = [params.port + i if params.port else 0 for i in range(params.replicas)]
    return [quoted([*start, "--host", params.host, "--port", str(port)]) for port in ports]


def rows(made: Sequence[ServerPlan], params: Serve) -> list[dict[str, str]]:
    """Which parameter puts which words on the command line and why; table rows."""
    table = made[0].table if made else _sketched(params)
    short = [[shown(one) if one.startswith("/") else one for one in row.words] for row in table]
    return [
        {"parameter": row.parameter, "words": quoted(given), "why": row.why}
        for row, given in zip(table, short, strict=True)
    ]


def _sketched(params: Serve) -> Sequence[Words]:
    words.extra(params.extra_args, None)
    return words.chosen(params, Path("MODEL.gguf"), Path("PROJECTOR.gguf"), None)


def example(plan: ServerPlan, port: int) -> str:
    """Commands to talk to a server and to stop it; a key is read where it lies."""
    body = {"model": plan.params.alias, "messages": [{"role": "user", "content": "Hello"}]}
    url = f"{occupant.url(plan.params.host, port)}/v1/chat/completions"
    ask = quoted(["curl", "--noproxy", "*", url])
    if file := plan.params.api_key_file:
        key = f"$(grep -m 1 '^[^#]' {quoted([located(file)])})".replace(f"{project_root()}/", "")
    else:
        key = f"${apikey.VARIABLE}" if apikey.VARIABLE in plan.env else ""
    if key:  # not as an argument, which every user of the machine can read
        ask += f""" -H @<(printf 'X-Api-Key: %s' "{key}")"""
    ask += " " + quoted(["-H", "Content-Type: application/json", "-d", json.dumps(body)])
    return f"{ask}\nkeyelab status\nkeyelab stop --port {port}\n"


def _key(
    argv: Sequence[str],
    replica: int,
    params: Serve,
    build: BuildFacts,
    model: ModelFacts,
    env: Mapping[str, str],
) -> str:
    """A digest of what the server is started from; of a key file no digest, only its stamp."""
    stat = located(params.api_key_file).stat() if params.api_key_file else None
    return sha256_json(
        {
            "argv": list(argv),
            "binaries": {name: fact.sha256 for name, fact in build.binaries.items()},
            "model": [model.model.sha256, model.mmproj.sha256],
            "environment": {k: v for k, v in env.items() if k.startswith(_DEVICE_PREFIXES)},
            "api_key_file": [stat.st_mtime_ns, stat.st_size, stat.st_ino] if stat else None,
            "replica": replica,
        }
    )
