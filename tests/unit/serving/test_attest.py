from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from keyelab.diagnose import diagnose
from keyelab.serving import attest, lifecycle, observed
from keyelab.serving.command import ServerPlan
from keyelab.serving.lifecycle import Place
from keyelab.serving.observed import Observed
from keyelab.serving.state import ServerState

START = Path(__file__).parents[2] / "data" / "serving" / "start" / "cpu.log"
Served = tuple[ServerPlan, ServerState, Observed]


@pytest.fixture
def served(make_plan: Any, place: Place, faulty: Callable[..., dict[str, str]]) -> Served:
    """The stub, which logs what a real server logged while it started."""
    plan = make_plan(context_tokens=4096)
    log = START.read_text().replace("models/mmproj-keyelab-tiny-f16.gguf", str(plan.mmproj))
    plan = dataclasses.replace(plan, env={**plan.env, **faulty(log=log)})
    (state,) = lifecycle.ensure([plan], place, 20, lambda *_: None)
    return plan, state, observed.look(state, plan.env)


def statuses(plan: ServerPlan, state: ServerState, seen: Observed) -> dict[str, str]:
    return {item.name: item.status for item in attest.checks(plan, state, seen)}


def test_server_that_was_started_proves_itself(served: Served) -> None:
    found = statuses(*served)
    # the stub is a script: no library of llama.cpp is in its memory
    assert found.pop("files in memory") == "unknown"
    assert set(found.values()) == {"ok"}


def test_facts_are_what_the_server_said(served: Served) -> None:
    plan, state, seen = served
    facts = attest.facts([plan], [state], [seen])
    assert facts.pid == state.pid
    assert facts.build_info == "b10019-0123456789ab"
    assert facts.context_tokens == 4096
    assert facts.slots == 1
    assert facts.ready_s > 0
    assert (facts.flash_attention, facts.projector_backend, facts.graph_splits) == (True, "CPU", 1)
    assert facts.buffers_mib["CPU_Mapped"] == 1.26
    assert [one.url for one in facts.servers] == [facts.url]


def test_proxy_between_clients_and_the_server_is_told(served: Served) -> None:
    plan, state, seen = served
    found = attest.checks(plan, state, dataclasses.replace(seen, proxied="HTTP 502 from squid"))
    (told,) = (item for item in found if item.name == "way through proxies")
    assert (told.status, told.found) == ("warned", "HTTP 502 from squid")
    assert "no_proxy=127.0.0.1" in told.remedy


def test_what_is_alike_for_several_servers_is_one_check(served: Served) -> None:
    plan, state, seen = served
    other = state.model_copy(update={"port": 1, "pid": 1})
    found = [attest.checks(plan, one, seen) for one in (state, other)]
    names = [item.name for item in attest.together([state, other], found)]
    assert names[:2] == [f"listening process ({state.port})", "listening process (1)"]
    assert names.count("build") == 1
    assert len(attest.facts([plan, plan], [state, other], [seen, seen]).servers) == 2


def test_declared_and_observed_stand_side_by_side(served: Served) -> None:
    rows = {row["what"]: row for row in attest.rows(attest.checks(*served))}
    assert rows["slots"] == {"what": "slots", "declared": "1", "observed": "1", "verdict": "ok"}
    assert rows["weights"]["observed"] == "CPU_Mapped 1.26 MiB"
    assert rows["files in memory"]["verdict"] == "**unknown**"


@pytest.mark.parametrize(
    ("change", "check"),
    [
        ({"build_info": "b9000-older"}, "build"),
        ({"model_path": "/elsewhere/model.gguf"}, "model"),
        ({"modalities": {"vision": False}}, "pictures"),
        ({"total_slots": 4}, "slots"),
    ],
)
def test_another_server_is_found_out(served: Served, change: dict[str, Any], check: str) -> None:
    plan, state, seen = served
    other = dataclasses.replace(seen, props={**seen.props, **change})
    found = statuses(plan, state, other)
    assert found[check] == "failed"
    del found["files in memory"]
    assert [name for name, status in found.items() if status != "ok"] == [check]


def test_stranger_on_the_port_another_name_and_another_projector_fail(served: Served) -> None:
    plan, state, seen = served
    start = dataclasses.replace(seen.start, projector_file="/elsewhere/mmproj.gguf")
    found = statuses(
        plan,
        state,
        dataclasses.replace(seen, strangers=frozenset({1}), model_names="other", start=start),
    )
    named = ("listening process", "model name", "projector")
    assert [found[name] for name in named] == ["failed"] * 3


def test_silence_is_unknown_and_never_a_pass(served: Served) -> None:
    plan, state, _ = served
    found = statuses(plan, state, Observed())
    passes = {name for name, status in found.items() if status != "unknown"}
    assert passes == {"server log", "exposure"}


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("{bin}/libggml-base.so.0", "ok"),
        ("/usr/lib/libggml-base.so.0", "failed"),
        ("{bin}/libggml-base.so.0 (deleted)", "failed"),
        ("{model}", "ok"),
        ("/elsewhere/model.gguf", "failed"),
    ],
)
def test_files_in_memory_are_of_this_build_and_this_model(
    served: Served, path: str, status: str
) -> None:
    plan, state, seen = served
    path = path.format(bin=plan.program.parent, model=plan.model)
    seen = dataclasses.replace(seen, mapped=frozenset({path}))
    assert statuses(plan, state, seen)["files in memory"] == status


@pytest.mark.parametrize("shrunk", [None, (4096, 2048)])
def test_shrunk_context_warns(served: Served, shrunk: tuple[int, int] | None) -> None:
    plan, state, seen = served
    tokens = 4096 if shrunk else 2048
    props = {**seen.props, "default_generation_settings": {"n_ctx": tokens}}
    start = dataclasses.replace(seen.start, shrunk=shrunk)
    found = statuses(plan, state, dataclasses.replace(seen, props=props, start=start))
    assert found["context per slot"] == "warned"


def test_a_launch_above_its_bound_fails_although_it_answers(served: Served) -> None:
    plan, state, seen = served
    assert statuses(plan, state, dataclasses.replace(seen, launches=3))["kernel launches"] == (
        "failed"
    )


@pytest.mark.parametrize(
    ("log", "status", "found"),
    [
        ("cudaMalloc failed: out of memory", "failed", "memory"),
        ("Launch params (1024, 1, 1) are larger than launch bounds (256) for kernel f", "failed",
         "f is started with more threads"),
        ("0.00.001.000 E srv: something else", "warned", "something else"),
        ("W common_fit_params: failed to fit params to free device memory: abort", "warned", "fit"),
        ("failed to find a memory slot for batch of size 1024", "ok", "none"),
        ("all is well", "ok", "none"),
    ],
)  # fmt: skip
def test_error_in_the_log_fails_although_it_answers_unless_it_is_a_requests_own(
    served: Served, log: str, status: str, found: str
) -> None:
    plan, state, seen = served
    seen = dataclasses.replace(seen, report=diagnose(log))
    verdict = next(i for i in attest.checks(plan, state, seen) if i.name == "server log")
    assert (verdict.status, found in verdict.found) == (status, True)
