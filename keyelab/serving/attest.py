"""Proof that the server that answers is the one that was started, with the files it was given.

Each check has what was declared before the start and what was observed after it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from keyelab.checks import Check, check
from keyelab.diagnose import Report
from keyelab.diagnose.finding import quoted
from keyelab.facts import ServeFacts, ServerFact
from keyelab.files import shown
from keyelab.serving import exposure, placement
from keyelab.serving.command import ServerPlan
from keyelab.serving.observed import Observed
from keyelab.serving.state import ServerState

_PICTURES: dict[object, str] = {True: "accepted", False: "refused"}
_SHARD = re.compile(r"-\d{5}-of-\d{5}(?=\.gguf)")
_AGAIN = "keyelab stop, then: keyelab run --from serve"


def together(servers: Sequence[ServerState], found: Sequence[Sequence[Check]]) -> list[Check]:
    """The checks of all servers, by name; what is alike for all is one check."""
    ports: dict[Check, list[int]] = {}
    names = [item.name for items in found for item in items]
    for one, items in zip(servers, found, strict=True):
        for item in items:
            ports.setdefault(item, []).append(one.port)
    return [
        item
        if len(of) == len(servers)
        else item.model_copy(update={"name": f"{item.name} ({', '.join(map(str, of))})"})
        for item, of in sorted(ports.items(), key=lambda pair: names.index(pair[0].name))
    ]


def rows(found: Sequence[Check]) -> list[dict[str, Any]]:
    """Declared and observed side by side."""
    return [
        {"what": item.name, "declared": item.expected, "observed": item.found}
        | {"verdict": item.status if item.status == "ok" else f"**{item.status}**"}
        for item in found
    ]


def checks(plan: ServerPlan, state: ServerState, seen: Observed) -> list[Check]:
    """Verdicts: process, build, files, name, slots, context, placement, log, exposure."""
    props, start = seen.props, seen.start
    model, vision = props.get("model_path"), (props.get("modalities") or {}).get("vision")
    others = ", ".join(f"pid {pid or 'of another user'}" for pid in seen.strangers)
    return [
        check(
            "listening process",
            not seen.strangers if seen.listeners else None,
            expected=f"pid {state.pid}",
            found=others or (f"pid {state.pid}" if seen.listeners else "unknown"),
            remedy=_AGAIN,
        ),
        _same("build", props.get("build_info"), plan.build_info),
        _in_memory(plan, seen),
        _same("model", model and shown(model), shown(plan.model)),
        _same(
            "projector", start.projector_file and shown(start.projector_file), shown(plan.mmproj)
        ),
        _same("pictures", _PICTURES.get(vision), "accepted"),
        _same("model name", seen.model_names, plan.params.alias),
        _same("slots", props.get("total_slots"), plan.params.parallel),
        _context(plan, seen),
        *placement.checks(plan, seen),
        check(
            "kernel launches",
            None if seen.launches is None else not seen.launches,
            expected="no 'Launch params' line: none above the kernel's bound",
            found="unknown" if seen.launches is None else f"{seen.launches} such lines",
            remedy="its answers are wrong: keyelab run --from source_patch with another recipe",
        ),
        _log_check(seen.report, state.log),
        exposure.verdict(plan, seen),
        check(
            "way through proxies",
            None if seen.proxied is None else not seen.proxied,
            expected="clients that follow http_proxy reach it",
            found={None: "unknown", "": "they do"}.get(seen.proxied, str(seen.proxied)),
            remedy="export no_proxy=127.0.0.1,localhost for every client",
            warn=True,
        ),
    ]


def facts(
    plans: Sequence[ServerPlan], servers: Sequence[ServerState], seen: Sequence[Observed]
) -> ServeFacts:
    """What later phases read: the first server's facts, and those of all."""
    all_of = [_fact(*each) for each in zip(plans, servers, seen, strict=True)]
    return ServeFacts(**all_of[0].model_dump(), servers=all_of)


def _fact(plan: ServerPlan, state: ServerState, seen: Observed) -> ServerFact:
    return ServerFact(
        url=state.url,
        pid=state.pid,
        state_file=state.file,
        log=state.log,
        alias=plan.params.alias,
        build_info=str(seen.props.get("build_info", "")),
        model_path=shown(plan.model),
        context_tokens=seen.context_tokens,
        slots=seen.props.get("total_slots"),
        ready_s=state.ready_s or 0.0,
        command=plan.command(state.port),
        api_key_file=plan.params.api_key_file,
        flash_attention=seen.start.flash_attention,
        devices=seen.start.devices(),
        buffers_mib=seen.start.buffers_mib(),
        projector_backend=seen.start.projector,
        graph_splits=seen.start.splits,
    )


def _in_memory(plan: ServerPlan, seen: Observed) -> Check:
    """Libraries of this build and weights of this model, and no others, in its memory."""
    folder, weights = plan.program.resolve().parent, _SHARD.sub("", str(plan.model.resolve()))

    def ours(path: str) -> bool:
        real = Path(path.removesuffix(" (deleted)"))
        if ".gguf" in path:
            return _SHARD.sub("", str(real.resolve())) == weights
        return real.resolve().parent == folder and not path.endswith(" (deleted)")

    wrong = sorted(path for path in seen.mapped or () if not ours(path))
    names = sorted(Path(path).name for path in seen.mapped or () if ".gguf" in path)
    libraries = f"{len(seen.mapped or ()) - len(names)} libraries"
    return check(
        "files in memory",
        None if seen.mapped is None else not wrong,
        expected=f"libraries of {shown(plan.program.parent)}, this model",
        found=", ".join(map(shown, wrong))
        or ("unknown" if seen.mapped is None else ", ".join([libraries, *names])),
        remedy="unset LD_LIBRARY_PATH where it names them (or it was built anew since), then: "
        "keyelab stop; keyelab run --from serve",
    )


def _context(plan: ServerPlan, seen: Observed) -> Check:
    asked = plan.params.context_tokens // max(plan.params.parallel, 1)
    tokens, shrunk = seen.context_tokens, seen.start.shrunk
    cut = ", cut from {:,} to {:,} to fit".format(*shrunk) if shrunk else ""
    return check(
        "context per slot",
        None if tokens is None else tokens >= asked and not shrunk,
        expected=f"at least {asked:,} tokens" if asked else "the model's own",
        found="unknown" if tokens is None else f"{tokens:,} tokens{cut}",
        remedy="lower serve.context_tokens or serve.parallel to what fits in memory",
        warn=True,
    )


def _log_check(report: Report, log: str) -> Check:
    # a request that failed is that request's affair; another error spoils every answer
    known = [found for found in report.causes if found.entry.phase != "request"]
    said = [f"{found.title} ({found.line})" for found in known]
    said += [quoted(line.text) for line in report.unlisted()]
    return check(
        "server log",
        not said,
        expected="no error line",
        found=(said or ["none"])[0],
        remedy=known[0].remedy[0].removeprefix("$ ") if known else f"read it: less {log}",
        warn=not known or known[0].entry.severity != "error",
    )


def _same(name: str, found: object, expected: object) -> Check:
    return check(
        name,
        None if found is None else found == expected,
        expected=str(expected),
        found="unknown" if found is None else str(found),
        remedy=_AGAIN,
    )
