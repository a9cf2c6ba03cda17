from __future__ import annotations

import time
from typing import Any

import pytest

from keyelab.errors import KeyelabError
from keyelab.serving import lifecycle, ready, state
from keyelab.serving.lifecycle import Place


def quiet(fraction: float | None, text: str) -> None:
    return None


def serve(make_plan: Any, place: Place, env: Any, timeout_s: float = 20) -> lifecycle.Served:
    return lifecycle.ensure(make_plan(), env, place, timeout_s, quiet)


def test_early_503_is_loading_and_then_ready(make_plan: Any, place: Place, faulty: Any) -> None:
    said: list[str] = []
    served = lifecycle.ensure(
        make_plan(), faulty(health_503=3), place, 20, lambda _, text: said.append(text)
    )
    assert served.state.ready_s is not None
    assert served.state.ready_s > 0.3
    assert any("loading model" in text for text in said)


def test_health_alone_is_not_ready(make_plan: Any, place: Place, faulty: Any) -> None:
    quick = serve(make_plan, place, faulty())
    lifecycle.process.stop(quick.state)
    slow = serve(make_plan, place, faulty(props_503=5))
    assert slow.state.ready_s is not None
    assert quick.state.ready_s is not None
    assert slow.state.ready_s > quick.state.ready_s + 0.3


def test_proxy_of_the_environment_is_passed_by(
    make_plan: Any, place: Place, faulty: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.delenv("no_proxy", raising=False)
    assert not serve(make_plan, place, faulty()).adopted


def test_server_that_dies_while_loading_tells_its_cause_at_once(
    make_plan: Any, place: Place, faulty: Any
) -> None:
    log = "0.00.004.233 E llama_model_load: tensor data is not within the file bounds"
    started = time.monotonic()
    with pytest.raises(KeyelabError, match="ended with exit status 1 while loading") as error:
        serve(make_plan, place, faulty(exit=1, log=log), 60)
    assert time.monotonic() - started < 10
    assert "not within the file bounds" in error.value.message
    assert "model_fetch" in error.value.hint
    assert state.all_states(place.workdir) == []


def test_exit_status_zero_before_ready_is_a_failure_too(
    make_plan: Any, place: Place, faulty: Any
) -> None:
    with pytest.raises(KeyelabError, match="ended with exit status 0 while loading"):
        serve(make_plan, place, faulty(exit=0))


def test_foreign_503_is_not_taken_for_loading(make_plan: Any, place: Place, faulty: Any) -> None:
    with pytest.raises(KeyelabError, match="another program or a proxy answers") as error:
        serve(make_plan, place, faulty(health_503=99, body_503="proxy: host not allowed"))
    assert "proxy: host not allowed" in error.value.message


def test_401_ends_the_wait_and_leaves_the_server_alone(
    make_plan: Any, place: Place, faulty: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LLAMA_API_KEY", "never-shown")
    started = time.monotonic()
    with pytest.raises(ready.KeyRefused, match="refuses the API key") as error:
        serve(make_plan, place, faulty(status=401), 60)
    assert time.monotonic() - started < 10
    assert "never-shown" not in str(error.value)
    (left,) = state.all_states(place.workdir)
    assert state.is_running(left)


def test_stuck_server_is_stopped_and_told_from_a_slow_one(
    make_plan: Any, place: Place, faulty: Any
) -> None:
    with pytest.raises(KeyelabError, match="stuck: neither its log nor its memory") as error:
        serve(make_plan, place, faulty(silent=True, log="fitting params to device memory"), 1.5)
    assert "last stage: fitting params to device memory" in error.value.message
    assert state.all_states(place.workdir) == []


def test_slow_server_asks_for_more_time(make_plan: Any, place: Place, faulty: Any) -> None:
    known = serve(make_plan, place, faulty()).state
    slow = ready._late(known, 10, 0.5)
    assert "slow: its log or memory moved" in slow.message
    assert slow.hint == "wait longer: --set serve.ready_timeout_s=30"


def test_interrupt_while_waiting_leaves_no_server(
    make_plan: Any, place: Place, faulty: Any
) -> None:
    def interrupt(fraction: float | None, text: str) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        lifecycle.ensure(make_plan(), faulty(silent=True), place, 20, interrupt)
    assert state.all_states(place.workdir) == []
