"""Proof that the server that answers is the one that was started, with the files it was given."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from keyelab.checks import Check, check
from keyelab.diagnose import Report
from keyelab.diagnose.finding import quoted
from keyelab.facts import ServeFacts
from keyelab.files import shown
from keyelab.serving import port, probe, ready
from keyelab.serving.command import ServerPlan
from keyelab.serving.state import ServerState

_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_PICTURES: dict[object, str] = {True: "accepted", False: "refused"}


@dataclass(frozen=True)
class Seen:
    """What the running server says of itself and what the system says of it; None unknown."""

    props: dict[str, Any]
    model_names: str | None
    listener: int | None
    report: Report


def look(state: ServerState) -> Seen:
    """Ask /props and /v1/models, the port's owner and the log."""
    models = probe.get(state.url, "/v1/models")
    return Seen(
        props=probe.get(state.url, "/props") or {},
        model_names=" ".join(entry["id"] for entry in models["data"]) if models else None,
        listener=port.listener(state.port),
        report=ready.read_log(state),
    )


def checks(plan: ServerPlan, state: ServerState, seen: Seen) -> list[Check]:
    """Verdicts: process, build, files, name, slots, context, log, exposure."""
    props = seen.props
    model, vision = props.get("model_path"), (props.get("modalities") or {}).get("vision")
    context = context_tokens(props)
    asked = plan.params.context_tokens // max(plan.params.parallel, 1)
    keyed = "--api-key-file" in plan.options or bool(os.environ.get(probe.KEY_VARIABLE))
    return [
        _same("listening process", seen.listener, state.pid),
        _same("build", props.get("build_info"), plan.build_info),
        _same("model", model and shown(model), shown(plan.model)),
        _same("pictures", _PICTURES.get(vision), "accepted"),
        _same("model name", seen.model_names, plan.params.alias),
        _same("slots", props.get("total_slots"), plan.params.parallel),
        check(
            "context per slot",
            None if context is None else context >= asked,
            expected=f"at least {asked} tokens" if asked else "the model's own",
            found="unknown" if context is None else f"{context} tokens",
            remedy="lower serve.context_tokens or serve.parallel to what fits in memory",
            warn=True,
        ),
        _log_check(seen.report, state.log),
        check(
            "exposure",
            plan.params.host in _LOOPBACK or keyed,
            expected="loopback only, or an API key",
            found=f"{plan.params.host}, {'with' if keyed else 'without'} an API key",
            remedy="anyone who reaches this address can use the server: set serve.host to "
            "127.0.0.1 and come through an SSH tunnel, or set an API key (LLAMA_API_KEY)",
            warn=True,
        ),
    ]


def facts(plan: ServerPlan, state: ServerState, seen: Seen) -> ServeFacts:
    """What later phases read of the server; `context_tokens` is per slot."""
    return ServeFacts(
        url=state.url,
        pid=state.pid,
        state_file=state.file,
        log=state.log,
        alias=plan.params.alias,
        build_info=str(seen.props.get("build_info", "")),
        model_path=shown(plan.model),
        context_tokens=context_tokens(seen.props),
        slots=seen.props.get("total_slots"),
        ready_s=state.ready_s or 0.0,
        command=plan.command(state.port),
    )


def context_tokens(props: dict[str, Any]) -> int | None:
    """Context of one slot in tokens, from /props."""
    return (props.get("default_generation_settings") or {}).get("n_ctx")


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
        remedy="keyelab stop, then: keyelab run --from serve",
    )
