from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from keyelab.serving import attest, lifecycle
from keyelab.serving.attest import Seen
from keyelab.serving.lifecycle import Place


@pytest.fixture
def served(make_plan: Any, place: Place, faulty: Any) -> Any:
    plan = make_plan(context_tokens=4096)
    state = lifecycle.ensure(plan, faulty(), place, 20, lambda *_: None)
    return plan, state, attest.look(state)


def statuses(plan: Any, state: Any, seen: Seen) -> dict[str, str]:
    return {item.name: item.status for item in attest.checks(plan, state, seen)}


def test_server_that_was_started_proves_itself(served: Any) -> None:
    assert set(statuses(*served).values()) == {"ok"}


def test_facts_are_what_the_server_said(served: Any) -> None:
    plan, state, seen = served
    facts = attest.facts(plan, state, seen)
    assert facts.pid == state.pid
    assert facts.build_info == "b10019-0123456789ab"
    assert facts.context_tokens == 4096
    assert facts.slots == 1
    assert facts.ready_s > 0


@pytest.mark.parametrize(
    ("change", "check"),
    [
        ({"build_info": "b9000-older"}, "build"),
        ({"model_path": "/elsewhere/model.gguf"}, "model"),
        ({"modalities": {"vision": False}}, "pictures"),
        ({"total_slots": 4}, "slots"),
    ],
)
def test_another_server_is_found_out(served: Any, change: dict[str, Any], check: str) -> None:
    plan, state, seen = served
    other = dataclasses.replace(seen, props={**seen.props, **change})
    found = statuses(plan, state, other)
    assert found[check] == "failed"
    assert [name for name, status in found.items() if status != "ok"] == [check]


def test_stranger_on_the_port_and_another_name_fail(served: Any) -> None:
    plan, state, seen = served
    found = statuses(plan, state, dataclasses.replace(seen, listener=1, model_names="other"))
    assert (found["listening process"], found["model name"]) == ("failed", "failed")


def test_silence_is_unknown_and_never_a_pass(served: Any) -> None:
    plan, state, _ = served
    found = statuses(plan, state, Seen({}, None, None, []))
    assert found["start-up log"] == "ok"
    assert found["exposure"] == "ok"
    unknown = {name for name, status in found.items() if status == "unknown"}
    assert unknown == set(found) - {"start-up log", "exposure"}


def test_shrunk_context_warns(served: Any) -> None:
    plan, state, seen = served
    props = {**seen.props, "default_generation_settings": {"n_ctx": 2048}}
    found = statuses(plan, state, dataclasses.replace(seen, props=props))
    assert found["context per slot"] == "warned"


def test_memory_failure_in_the_start_up_log_fails_and_other_errors_warn(served: Any) -> None:
    plan, state, seen = served
    grave = dataclasses.replace(seen, errors=["cudaMalloc failed: out of memory"])
    mild = dataclasses.replace(seen, errors=["something else"])
    assert statuses(plan, state, grave)["start-up log"] == "failed"
    assert statuses(plan, state, mild)["start-up log"] == "warned"


def test_open_address_without_a_key_warns(
    served: Any, make_plan: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, state, seen = served
    exposed = make_plan(host="0.0.0.0")
    monkeypatch.delenv("LLAMA_API_KEY", raising=False)
    assert statuses(exposed, state, seen)["exposure"] == "warned"
    monkeypatch.setenv("LLAMA_API_KEY", "k")
    assert statuses(exposed, state, seen)["exposure"] == "ok"
