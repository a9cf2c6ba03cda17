"""Servers in words: for the notebook and its reader."""

from __future__ import annotations

import json
from pathlib import Path

from keyelab.serving.lifecycle import Served
from keyelab.serving.state import ServerState, all_states, is_running
from keyelab.shell import quoted


def rows(workdir: Path) -> list[dict[str, object]]:
    """The known servers as table rows."""
    return [
        {
            "port": state.port,
            "pid": state.pid,
            "state": "running" if is_running(state) else "gone",
            "started": state.started,
            "run": state.run_dir,
        }
        for state in all_states(workdir)
    ]


def started(served: Served) -> str:
    """One sentence, markdown, on where the server came from."""
    state = served.state
    if served.adopted:
        return (
            f"Adopted the server on port {state.port} (pid {state.pid}), running from the same "
            f"words and files since {state.started}, started by `{state.run_dir}`."
        )
    return (
        f"Started on port {state.port} (pid {state.pid}), ready after {state.ready_s or 0:.1f} s."
    )


def how_to(state: ServerState) -> str:
    """Commands to talk to a server and to stop it."""
    body = {"model": state.alias, "messages": [{"role": "user", "content": "Hello"}]}
    ask = ["curl", "--noproxy", "*", f"{state.url}/v1/chat/completions"]
    ask += ["-H", "Content-Type: application/json", "-d", json.dumps(body)]
    return f"{quoted(ask)}\nkeyelab status\nkeyelab stop --port {state.port}\n"
