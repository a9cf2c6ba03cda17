from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from keyelab.diagnose import diagnose
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
    found = statuses(plan, state, Seen({}, None, None, diagnose("")))
    assert found["server log"] == "ok"
    assert found["exposure"] == "ok"
    unknown = {name for name, status in found.items() if status == "unknown"}
    assert unknown == set(found) - {"server log", "exposure"}


def test_shrunk_context_warns(served: Any) -> None:
    plan, state, seen = served
    props = {**seen.props, "default_generation_settings": {"n_ctx": 2048}}
    found = statuses(plan, state, dataclasses.replace(seen, props=props))
    assert found["context per slot"] == "warned"


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
    served: Any, log: str, status: str, found: str
) -> None:
    plan, state, seen = served
    seen = dataclasses.replace(seen, report=diagnose(log))
    verdict = next(i for i in attest.checks(plan, state, seen) if i.name == "server log")
    assert (verdict.status, found in verdict.found) == (status, True)


def test_open_address_without_a_key_warns(
    served: Any, make_plan: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, state, seen = served
    exposed = make_plan(host="0.0.0.0")
    monkeypatch.delenv("LLAMA_API_KEY", raising=False)
    assert statuses(exposed, state, seen)["exposure"] == "warned"
    monkeypatch.setenv("LLAMA_API_KEY", "k")
    assert statuses(exposed, state, seen)["exposure"] == "ok"
