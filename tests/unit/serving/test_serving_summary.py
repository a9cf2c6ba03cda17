from __future__ import annotations

import shlex
from typing import Any

from keyelab.serving import lifecycle, process, summary
from keyelab.serving.lifecycle import Place


def test_running_server_is_listed_and_described(make_plan: Any, place: Place, faulty: Any) -> None:
    served = lifecycle.ensure(make_plan(), faulty(), place, 20, lambda *_: None)
    (row,) = summary.rows(place.workdir)
    assert row["state"] == "running"
    assert row["pid"] == served.state.pid
    assert summary.started(served).startswith(f"Started on port {served.state.port}")
    again = lifecycle.ensure(make_plan(), faulty(), place, 20, lambda *_: None)
    assert summary.started(again).startswith("Adopted the server")
    process.stop(served.state)
    assert summary.rows(place.workdir) == []


def test_commands_can_be_pasted(make_plan: Any, place: Place, faulty: Any) -> None:
    state = lifecycle.ensure(make_plan(), faulty(), place, 20, lambda *_: None).state
    curl, _, stop = summary.how_to(state).splitlines()
    assert shlex.split(curl)[-1].startswith('{"model": "keyelab-tiny"')
    assert stop == f"keyelab stop --port {state.port}"
