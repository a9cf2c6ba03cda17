"""The words of the command line: which parameter puts them there, and why."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from keyelab.errors import UsageError
from keyelab.files import located
from keyelab.params import Serve
from keyelab.serving.flags import Offer, plain

TRACE = "4"  # image-encode, device and cache lines appear from this verbosity on (b10019)
# what extra_args may not hold: a parameter sets it, or it would show a key in records
OWNED = {
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
    "-ctk --cache-type-k": "serve.cache_type_k",
    "-ctv --cache-type-v": "serve.cache_type_v",
    "-ub --ubatch-size": "serve.ubatch_tokens",
    "--image-max-tokens": "serve.image_max_tokens",
    "-dev --device": "serve.devices",
    "-sm --split-mode": "serve.split_mode",
    "-fit --fit": "serve.fit",
    "-hft --hf-token": "the environment variable HF_TOKEN",
    "--api-key --api-key-file": "serve.api_key_file",
    "-lv --verbosity -v --verbose --log-verbose --log-verbosity": "keyelab itself",
}


_OFF = (("--fit", "off"), ("--cache-ram", "0"))


@dataclass(frozen=True)
class Words:
    """What a parameter puts on the command line, and why."""

    parameter: str
    words: tuple[str, ...]
    why: str


def chosen(params: Serve, model: Path, mmproj: Path, offer: Offer | None) -> list[Words]:
    """The words of every parameter, in the spelling that the build has; None takes the newest.

    Raises UsageError for a flag that the build lacks and for a value that it does not list.
    """
    found = []
    for parameter, choices, why in _asked(params, str(model), str(mmproj)):
        known = [words for words in choices if offer is None or offer.find(words[0])]
        words = known[0] if known else choices[0]
        if not known and words in _OFF:
            continue  # a build that cannot do it needs no word against it
        flag = offer.require(words[0], parameter) if offer else None
        if flag and flag.values != len(words) - 1:
            raise UsageError(
                f"{parameter}: expected that {words[0]} takes {len(words) - 1} value, found that "
                f"in this llama-server it takes {flag.values}",
                "build a newer llama.cpp: source_patch.version",
            )
        if flag and flag.choices and words[1] not in flag.choices:
            near = difflib.get_close_matches(words[1], flag.choices, n=1)
            raise UsageError(
                f"{parameter}: expected one of {', '.join(flag.choices)}, found {words[1]!r}",
                f"--set {parameter}={near[0]}" if near else "",
            )
        found.append(Words(parameter, words, why))
    if params.extra_args:
        found.append(Words("serve.extra_args", tuple(params.extra_args), "asked for"))
    return found


def _asked(
    params: Serve, model: str, mmproj: str
) -> Iterator[tuple[str, list[tuple[str, ...]], str]]:
    """(parameter, words in each spelling, the newest first; why)."""

    def one(parameter: str, flag: str, value: object, why: str) -> Any:
        return f"serve.{parameter}", [(flag, str(value))], why

    yield "model_fetch.model_file", [("--model", model)], "the file that 02_model_fetch proved"
    yield "model_fetch.mmproj_file", [("--mmproj", mmproj)], "its projector: without it no pictures"
    yield one("alias", "--alias", params.alias, "the name that clients send")
    context = "the model's own" if params.context_tokens == 0 else "all slots together, tokens"
    yield one("context_tokens", "--ctx-size", params.context_tokens, context)
    slots = "left out, llama-server takes 4 slots that share one context"
    yield one("parallel", "--parallel", params.parallel, slots)
    attention = "off where the recipe does not make its kernels right"
    yield one("flash_attention", "--flash-attn", params.flash_attention, attention)
    cache = "host memory for prompts of the past; llama-server's own is 8192 MiB"
    yield one("cache_ram_mib", "--cache-ram", params.cache_ram_mib, cache)
    fit = "on" if params.fit else "off"
    yield one("fit", "--fit", fit, "on, llama-server's own, may shrink context and layers unasked")
    for name, flag in (("cache_type_k", "--cache-type-k"), ("cache_type_v", "--cache-type-v")):
        if (kind := getattr(params, name)) != "f16":
            yield one(name, flag, kind, "of the KV cache; f16 is llama-server's own")
    if params.ubatch_tokens:
        yield one("ubatch_tokens", "--ubatch-size", params.ubatch_tokens, "computed at once")
    if params.image_max_tokens:
        most = "a larger picture is shrunk to so many tokens"
        yield one("image_max_tokens", "--image-max-tokens", params.image_max_tokens, most)
    if params.devices:
        yield one("devices", "--device", params.devices, "these devices only, in this order")
    if params.split_mode:
        yield one("split_mode", "--split-mode", params.split_mode, "how cards share the weights")
    if params.load_mode:
        maps = params.load_mode == "mmap"
        old = ("--mmap",) if maps else ("--no-mmap",)  # gone from b11010 on
        new = ("--load-mode", "mmap" if maps else "none")  # from b10502 on
        yield "serve.load_mode", [new, old], "map the file" if maps else "read the file"
    if params.threads:
        yield one("threads", "--threads", params.threads, "CPU threads")
    if params.api_key_file:
        key = "a path: a key among the words would be in records and process lists"
        yield one("api_key_file", "--api-key-file", located(params.api_key_file), key)
    yield "keyelab", [("--log-verbosity", TRACE)], "08 reads the image and device lines of level 4"


def extra(given: Sequence[str], offer: Offer | None) -> dict[str, list[str]]:
    """The flags of extra_args by their last spelling, and their values.

    Raises UsageError for one that a parameter sets, that the build lacks, or without its value.
    """
    for word in given:
        _require_free(word, {plain(word.split("=")[0])})
    found = {}
    for flag, word, values in offer.walk(given, "serve.extra_args") if offer else ():
        _require_free(word, {*flag.names})
        found[flag.names[-1]] = values
    return found


def _require_free(word: str, names: set[str]) -> None:
    if owner := next((o for known, o in OWNED.items() if names & {*known.split()}), ""):
        raise UsageError(
            f"serve.extra_args holds {word.split('=')[0]}, which {owner} sets",
            f"take it out and set {owner}" if "." in owner else "take it out",
        )


def require_devices(asked: str, there: Sequence[str]) -> None:
    """Stop for a device name that the build does not list; `none` is llama-server's own word."""
    for name in asked.split(","):
        if name not in there and asked != "none":
            raise UsageError(
                "expected in serve.devices names that llama-server --list-devices prints "
                f"({', '.join(there) or 'it prints none'}), found {name!r}",
                "serve.devices='' takes all that there are",
            )
