"""What a real llama-server with the demo model shows and answers, and what gives it away."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import llama
import pytest

from keyelab.params import Serve
from keyelab.serving import attest, lifecycle, observed, process, quiz
from keyelab.serving import state as states
from keyelab.serving.command import ServerPlan
from keyelab.serving.lifecycle import Place
from keyelab.serving.observed import Observed
from keyelab.serving.state import ServerState

pytestmark = pytest.mark.e2e
Served = tuple[ServerPlan, ServerState, Observed]


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., Served]]:
    """Start a server with these parameters and look at it."""
    place = Place(tmp_path / "work", tmp_path / "run", tmp_path / "run" / "logs" / "server.log")

    def start(**given: Any) -> Served:
        (plan,) = llama.plans(**given)
        (server,) = lifecycle.ensure([plan], place, 60, lambda *_: None)
        return plan, server, observed.look(server, plan.env)

    yield start
    for left in states.all_states(place.workdir):
        process.stop(left)


def bad(plan: ServerPlan, server: ServerState, seen: Observed) -> dict[str, str]:
    found = attest.checks(plan, server, seen)
    return {item.name: item.found for item in found if item.status != "ok"}


def test_all_of_a_right_server_is_read_and_right(serve: Callable[..., Served]) -> None:
    plan, server, seen = serve()
    assert bad(plan, server, seen) == {}
    facts = attest.facts([plan], [server], [seen])
    size_mib = plan.model.stat().st_size / 2**20
    assert sum(seen.start.weights_mib.values()) == pytest.approx(size_mib, abs=0.7)
    assert (facts.flash_attention, facts.projector_backend) == (True, "CPU")
    assert facts.graph_splits == 1


def test_a_server_without_flash_attention_is_told_from_one_with(
    serve: Callable[..., Served],
) -> None:
    plan, server, seen = serve(flash_attention="off")
    assert bad(plan, server, seen) == {}
    asked = dataclasses.replace(plan, params=Serve(flash_attention="on"))
    assert bad(asked, server, seen) == {"flash attention": "off"}


def test_a_cpu_server_is_found_out_on_a_gpu_target(serve: Callable[..., Served]) -> None:
    plan, server, seen = serve()
    found = bad(dataclasses.replace(plan, backend="hip", cards=("0000:06:00.0",)), server, seen)
    assert found["weights"].startswith("CPU")
    assert {"context state", "devices", "projector's device"} <= {*found}


def test_libraries_of_another_build_are_found_out(
    serve: Callable[..., Served], tmp_path: Path
) -> None:
    for library in llama.find_server().parent.glob("libggml*"):
        shutil.copy(library, tmp_path)
    found = bad(*serve(env={"LD_LIBRARY_PATH": str(tmp_path)}))
    assert list(found) == ["files in memory"]
    assert str(tmp_path) in found["files in memory"]


def test_demo_model_tells_the_colours_and_cannot_calculate(serve: Callable[..., Served]) -> None:
    plan, server, seen = serve()
    asked = quiz.ask(plan, server, calculates=True)
    assert {one.name: one.right for one in asked} == {
        "red picture": True, "blue picture": True, "sum": False,
    }  # fmt: skip
    build = str(seen.props["build_info"])
    assert {one.reply.build for one in asked} == {build}, "answers are signed by the build"
    assert [item.status for item in quiz.checks(asked, build)] == ["ok", "ok", "failed"]
