"""What the facts of each phase say, and what each of them follows from.

A phase that has left no facts says nothing, which is not the same as unknown.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator
from typing import Any

from keyelab.files import sha256_json
from keyelab.record.comparison.side import Side, mapping, rows
from keyelab.record.comparison.statement import Statement

Facts = dict[str, Any]
Said = tuple[str, str, Any, tuple[str, ...]]  # topic, name, value, what it follows from

_ORIGIN = tuple(
    f"parameters.source_patch.{name}"
    for name in ("source", "package", "version", "archive*", "subdir", "git_*", "source_path")
)
_BUILD = ("build.build_type", "build.gpu_targets", "build.cmake_options", "backend")
_SAMPLING = ("mode", "sampling", "times_s", "fps", "max_frames", "frame_max_tokens", "decoder")
_NOT_FLAGS = {"CMAKE_MAKE_PROGRAM", "LLAMA_BUILD_NUMBER", "LLAMA_BUILD_COMMIT"}


def facts(side: Side) -> Iterator[Statement]:
    """Statements from the facts of all phases."""
    told: dict[str, Callable[[Side, Facts], Iterator[Said]]] = {
        "env_check": _host,
        "model_fetch": _model,
        "header_fixes": _headers,
        "source_patch": _source,
        "build": _build,
        "serve": _server,
        "video_test": _video,
    }
    for phase, tell in told.items():
        if left := side.facts(phase):
            for topic, name, value, follows in tell(side, left):
                optional = name.startswith("edit ")  # the rules say which edits there are
                yield Statement(topic, name, phase, value, follows, optional=optional)


def _host(side: Side, left: Facts) -> Iterator[Said]:
    given, toolkit = "parameters.env_check.", ("host.toolkit*",)
    yield "host", "OS", left.get("os"), ()
    yield "host", "kernel", left.get("kernel"), ("host.OS",)
    yield "host", "CPU", left.get("cpu"), ()
    yield "host", "cores", left.get("cores"), ("host.CPU",)
    yield "host", "memory", _gib(left.get("memory_bytes")), ()
    yield "host", "toolkit", left.get("toolkit_root"), (f"{given}toolkit_root",)
    yield "host", "toolkit version", left.get("toolkit_version"), ("host.toolkit",)
    cards = rows(left.get("devices"))
    yield "host", "cards", [_card(one) for one in cards], ()
    yield "host", "card drivers", _each(cards, "driver"), ("host.cards", *toolkit)
    chosen = (f"{given}cards", f"{given}*_gib", f"{given}*_tokens", f"{given}*_token")
    yield "host", "cards chosen", left.get("chosen"), (*chosen, "host.cards")
    yield "host", "environment", left.get("environment"), (*toolkit, "host.cards chosen")
    yield (
        "host",
        "probe of the card",
        left.get("probe"),
        ("host.cards", *toolkit, f"{given}probe_arch"),
    )
    found = {
        one.get("name"): one.get("found") for one in rows(side.phases["env_check"].get("checks"))
    }
    for name in ("C++ compiler", "CMake", "ninja"):
        yield "host", name, found.get(name), ("host.OS",)
    yield "host", "python", left.get("python"), ()
    yield "host", "python packages", side.packages(), ("host.python",)


def _model(side: Side, left: Facts) -> Iterator[Said]:
    given = "parameters.model_fetch.*"
    for name, fact in (("model", "model"), ("projector", "mmproj")):
        yield "model", name, mapping(left.get(fact)).get("sha256"), (given,)
        kind = "projector" if name == "projector" else "architecture"
        yield "model", f"{name} type", left.get(kind), (f"model.{name}",)
    for name in ("quantization", "parameters", "context_tokens"):
        yield "model", name, left.get(name), ("model.model",)


def _headers(side: Side, left: Facts) -> Iterator[Said]:
    yield "source", "toolkit headers", left.get("originals"), ("host.toolkit*",)
    given = "parameters.header_fixes.*"
    yield "source", "headers corrected", left.get("files"), (given, "source.toolkit headers")


def _source(side: Side, left: Facts) -> Iterator[Said]:
    yield "source", "origin", left.get("origin"), _ORIGIN
    yield "source", "llama.cpp", left.get("version"), ("source.origin", *_ORIGIN)
    yield "source", "tree", left.get("base_sha256"), ("source.llama.cpp", "source.origin", *_ORIGIN)
    asked = ("parameters.source_patch.recipe", "host.probe of the card", "host.toolkit*")
    yield "patches", "recipe", left.get("recipe"), (*asked, "parameters.backend", "source.tree")
    rules = [one.get("id") for one in rows(left.get("patches"))]
    yield "patches", "rules", rules, ("patches.recipe", "source.tree", "keyelab.commit")
    for name, text in side.diffs().items():
        edit = sha256_json(without_places(text))
        yield "patches", f"edit {name}", edit, ("source.*", "patches.recipe", "keyelab.commit")
    follows = ("patches.rules", "patches.edit *", "source.tree")
    yield "source", "patched tree", left.get("tree_sha256"), follows


def _build(side: Side, left: Facts) -> Iterator[Said]:
    given = tuple(f"parameters.{name}" for name in _BUILD)
    asked = (*given, "patches.recipe", "host.*", "keyelab.commit")
    yield "build", "flags", flags(left.get("command")), asked
    yield "build", "backends", left.get("backends"), ("build.flags", *given)
    made_of = ("source.patched tree", "build.flags", "host.C++ compiler", "host.toolkit*")
    yield (
        "build",
        "key",
        left.get("key"),
        (*made_of, "host.CPU", "source.headers corrected", *given),
    )
    yield "build", "version", left.get("version"), ("source.patched tree", "source.llama.cpp")
    binaries = mapping(left.get("binaries")).items()
    digests = {name: mapping(one).get("sha256") for name, one in binaries}
    yield "build", "binaries", digests, ("build.key", "host.*")


def _server(side: Side, left: Facts) -> Iterator[Said]:
    given, below = "parameters.serve.", ("model.model", "build.*", "host.*")
    more = (f"{given}extra_args", f"{given}fit")
    context = (f"{given}context_tokens", f"{given}parallel", *more, "model.context_tokens")
    yield "server", "context", left.get("context_tokens"), context
    yield "server", "slots", left.get("slots"), (f"{given}parallel", *more)
    attention = (f"{given}flash_attention", "patches.recipe", *more, *below)
    yield "server", "flash attention", left.get("flash_attention"), attention
    yield "server", "servers", len(rows(left.get("servers"))) or 1, (f"{given}replicas",)
    devices = (f"{given}devices", f"{given}split_mode", f"{given}replicas", "host.card*")
    yield "server", "devices", left.get("devices"), (*devices, *more, *below)
    memory = ("server.*", f"{given}cache*", f"{given}ubatch*", f"{given}load_mode", *more)
    yield "server", "memory by buffer (MiB)", left.get("buffers_mib"), (*memory, *devices, *below)
    yield "server", "projector backend", left.get("projector_backend"), (*more, *below)
    yield "server", "graph splits", left.get("graph_splits"), ("server.devices", *more, *below)


def _video(side: Side, left: Facts) -> Iterator[Said]:
    given, frames = "parameters.video_test.", rows(left.get("frames"))
    yield "video", "video", mapping(left.get("video")).get("sha256"), (f"{given}video",)
    taken = tuple(f"{given}{name}" for name in _SAMPLING)
    yield "video", "frames", len(frames), (*taken, "video.video", "server.context")
    times = [one.get("time_s") for one in frames]
    yield "video", "frame times", times, ("video.frames", "video.video", *taken)
    size = ("model.*", f"{given}frame*", "parameters.serve.image_max_tokens")
    yield "video", "tokens per frame", left.get("tokens_per_frame"), size
    yield "answer", "answer", left.get("answer"), ()
    yield "answer", "end of the answer", left.get("finish_reason"), ("answer.answer",)
    yield "answer", "error", left.get("error") or "", ()
    more = [one.get("answer") or one.get("error") for one in rows(left.get("more"))]
    yield "answer", "more answers", more, (f"{given}more_prompts",)
    clips = {str(one.get("name")): one.get("right") for one in rows(left.get("clips"))}
    yield "answer", "clips told right", clips, (f"{given}clips_dir",)


def flags(command: Any) -> dict[str, str]:
    """The -D options of a CMake command line but those that only name the source or a program."""
    try:
        words = shlex.split(command if isinstance(command, str) else "")
    except ValueError:  # cut, or never a command
        return {}
    pairs = (word[2:].partition("=") for word in words if word.startswith("-D"))
    return {name: value for name, _, value in pairs if name not in _NOT_FLAGS}


def without_places(diff: str) -> str:
    """A unified diff without line numbers: the same edit at another place reads the same."""
    return re.sub(r"(?m)^@@ -\d+(,\d+)? \+\d+(,\d+)? @@.*$", "@@", diff)


def _card(card: Facts) -> str:
    health = "not healthy" if card.get("healthy") is False else None
    memory = _gib(card.get("memory_bytes"))
    told = (card.get("name"), card.get("arch"), memory, card.get("mode"), health)
    return " ".join(str(one) for one in told if one) or "unknown card"


def _each(cards: list[Facts], name: str) -> list[str] | None:
    return sorted({str(one[name]) for one in cards if one.get(name)}) or None


def _gib(size_bytes: Any) -> str | None:
    return f"{size_bytes / 2**30:.1f} GiB" if isinstance(size_bytes, int | float) else None
