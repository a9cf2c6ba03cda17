"""The servers of a run: which still run, which end with it, and whose logs go on.

`serve` are the resolved parameters of 06_serve, None for a run that does not come so far.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from keyelab.errors import KeyelabError
from keyelab.facts import ServeFacts, read_facts
from keyelab.files import located
from keyelab.params import Resolved

if TYPE_CHECKING:
    from keyelab.serving.state import ServerState


def living(serve: Resolved[Any] | None) -> list[ServerState]:
    """Running servers, also those of earlier runs, which may have been killed."""
    if serve is None:
        return []
    from keyelab.serving.state import all_states, is_running

    return [one for one in all_states(located(serve.values.workdir)) if is_running(one)]


def logs(serve: Resolved[Any] | None, folder: Path) -> list[Path]:
    """The logs in a run folder that its servers still write."""
    found = [located(one.log) for one in living(serve) if located(one.run_dir) == folder]
    return [log for log in found if log.is_relative_to(folder)]


def require(folder: Path, target: str) -> None:
    """Raise KeyelabError when a server that the run's serve phase left no longer runs."""
    from keyelab.serving.status import require_running

    facts = read_facts(folder, "serve", ServeFacts)
    require_running(facts, f"keyelab run --target {target} --from serve")


def stop(serve: Resolved[Any] | None, folder: Path, say: Callable[[str], None]) -> None:
    """End the servers that a run started, unless they were asked to stay."""
    if serve is None or serve.values.keep_server or serve.values.dry_run:
        return
    from keyelab.serving import process
    from keyelab.serving.state import all_states

    for state in all_states(located(serve.values.workdir)):
        if located(state.run_dir) != folder:
            continue
        try:
            process.stop(state)
            say(f"stopped the server on port {state.port}")
        except KeyelabError as error:
            say(f"the server on port {state.port} is not gone: {error}")
