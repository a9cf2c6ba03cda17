"""Proof that the server that answers is the one that was started, with the files it was given."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from keyelab.checks import Check, check
from keyelab.facts import ServeFacts
from keyelab.serving import cause, port, probe, ready
from keyelab.serving.command import ServerPlan
from keyelab.serving.state import ServerState
from keyelab.shell import quoted

_RESTART = "keyelab stop, then: keyelab run --from serve"
_LOOPBACK = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True)
class Seen:
    """What the running server says of itself and what the system says of it; None unknown."""

    props: dict[str, Any]
    model_ids: list[str] | None
    listener: int | None
    argv: list[str] | None
    errors: list[str]


def look(state: ServerState) -> Seen:
    """Ask /props and /v1/models, the port's owner, the process's words and its log."""
    props = probe.get(state.url, "/props")
    models = probe.get(state.url, "/v1/models")
    holder = port.holder(state.port)
    entries = models.json.get("data") if models and models.json else None
    ids = [str(entry.get("id")) for entry in entries] if isinstance(entries, list) else None
    return Seen(
        props=(props.json if props and props.status == 200 else None) or {},
        model_ids=ids,
        listener=holder.pid if holder else None,
        argv=_words(state.pid),
        errors=cause.errors(ready.log_text(state)),
    )


def checks(plan: ServerPlan, state: ServerState, seen: Seen) -> list[Check]:
    """Verdicts: process, command, build, model, projector, name, slots, context, log, exposure."""
    vision = (seen.props.get("modalities") or {}).get("vision")
    context = context_tokens(seen.props)
    asked = plan.context_tokens // max(plan.slots, 1)
    # an interpreter stands before the words of a wrapper script
    ours = None if seen.argv is None else seen.argv[-len(state.argv) :] == state.argv
    grave = cause.grave(seen.errors)
    return [
        _same("listening process", seen.listener, state.pid),
        check(
            "command line",
            ours,
            expected="as it was started",
            found="as it was started" if ours else quoted(seen.argv or ["unknown"]),
            remedy=_RESTART,
        ),
        _same("build", seen.props.get("build_info"), plan.build_info),
        check(
            "model",
            _is_file(seen.props.get("model_path"), plan.model),
            expected=plan.model.name,
            found=Path(str(seen.props.get("model_path", "unknown"))).name,
            remedy=_RESTART,
        ),
        check(
            "projector",
            vision,
            expected="pictures are accepted",
            found="unknown" if vision is None else "yes" if vision else "no",
            remedy="check model_fetch.mmproj_file, then: " + _RESTART,
        ),
        check(
            "model name",
            None if seen.model_ids is None else plan.alias in seen.model_ids,
            expected=plan.alias,
            found=" ".join(seen.model_ids or ["unknown"]),
            remedy=_RESTART,
        ),
        _same("slots", seen.props.get("total_slots"), plan.slots),
        check(
            "context per slot",
            None if context is None else context >= asked,
            expected=f"at least {asked} tokens" if asked else "the model's own",
            found="unknown" if context is None else f"{context} tokens",
            remedy="lower serve.context_tokens or serve.parallel to what fits in memory",
            warn=True,
        ),
        check(
            "start-up log",
            not seen.errors,
            expected="no error line",
            found=(grave or seen.errors or ["none"])[0],
            remedy="lower serve.context_tokens, or --no-mmproj-offload in serve.extra_args"
            if grave
            else f"read its log: less {state.log}",
            warn=not grave,
        ),
        check(
            "exposure",
            plan.host in _LOOPBACK or keyed(plan),
            expected="loopback only, or an API key",
            found=f"{plan.host}, {'with' if keyed(plan) else 'without'} an API key",
            remedy="anyone who reaches this address can use the server: set serve.host to "
            "127.0.0.1 and come through an SSH tunnel, or set an API key (LLAMA_API_KEY)",
            warn=True,
        ),
    ]


def facts(plan: ServerPlan, state: ServerState, seen: Seen) -> ServeFacts:
    """What later phases read of the server; `context_tokens` is per slot."""
    slots = seen.props.get("total_slots")
    return ServeFacts(
        url=state.url,
        pid=state.pid,
        state_file=state.file,
        log=state.log,
        alias=plan.alias,
        build_info=str(seen.props.get("build_info", "")),
        model_path=state.model,
        context_tokens=context_tokens(seen.props),
        slots=slots if isinstance(slots, int) else None,
        ready_s=round(state.ready_s or 0.0, 3),
        command=plan.command(state.port),
    )


def keyed(plan: ServerPlan) -> bool:
    """Whether the server asks its clients for an API key."""
    return "--api-key-file" in plan.options or bool(os.environ.get(probe.KEY_VARIABLE))


def context_tokens(props: dict[str, Any]) -> int | None:
    """Context of one slot in tokens, from /props."""
    value = (props.get("default_generation_settings") or {}).get("n_ctx")
    return value if isinstance(value, int) else None


def _same(name: str, found: Any, expected: Any) -> Check:
    return check(
        name,
        None if found is None else found == expected,
        expected=str(expected),
        found="unknown" if found is None else str(found),
        remedy=_RESTART,
    )


def _is_file(named: Any, expected: Path) -> bool | None:
    if not isinstance(named, str):
        return None
    path = Path(named)
    return path.exists() and path.samefile(expected)


def _words(pid: int) -> list[str] | None:
    try:
        content = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return None
    return content.decode(errors="replace").split("\0")[:-1] or None
