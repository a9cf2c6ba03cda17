from __future__ import annotations

import time
from typing import Any

import pytest

from keyelab.errors import KeyelabError
from keyelab.serving import lifecycle, state
from keyelab.serving.lifecycle import Place


def quiet(fraction: float | None, text: str) -> None:
    return None


def serve(make_plan: Any, place: Place, env: Any, timeout_s: float = 20) -> state.ServerState:
    return lifecycle.ensure(make_plan(), env, place, timeout_s, quiet)


def test_early_503_is_loading_and_then_ready(make_plan: Any, place: Place, faulty: Any) -> None:
    said: list[str] = []
    server = lifecycle.ensure(
        make_plan(), faulty(health_503=3), place, 20, lambda _, text: said.append(text)
    )
    assert server.ready_s is not None
    assert server.ready_s > 0.3
    assert any("loading model" in text for text in said)


def test_health_alone_is_not_ready(make_plan: Any, place: Place, faulty: Any) -> None:
    quick = serve(make_plan, place, faulty())
    lifecycle.process.stop(quick)
    slow = serve(make_plan, place, faulty(props_503=5))
    assert slow.ready_s is not None
    assert quick.ready_s is not None
    assert slow.ready_s > quick.ready_s + 0.3


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


def test_refused_key_ends_the_wait(make_plan: Any, place: Place, faulty: Any) -> None:
    started = time.monotonic()
    with pytest.raises(KeyelabError, match="refuses the API key"):
        serve(make_plan, place, faulty(status=401), 60)
    assert time.monotonic() - started < 10
    assert state.all_states(place.workdir) == []


def test_late_server_is_stopped_and_its_last_words_are_told(
    make_plan: Any, place: Place, faulty: Any
) -> None:
    with pytest.raises(KeyelabError, match=r"within 0\.5 s, it still loads") as error:
        serve(make_plan, place, faulty(silent=True, log="fitting params to device memory"), 0.5)
    assert "last line: fitting params to device memory" in error.value.message
    assert "--set serve.ready_timeout_s=1.5" in error.value.hint
    assert state.all_states(place.workdir) == []


def test_interrupt_while_waiting_leaves_no_server(
    make_plan: Any, place: Place, faulty: Any
) -> None:
    def interrupt(fraction: float | None, text: str) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        lifecycle.ensure(make_plan(), faulty(silent=True), place, 20, interrupt)
    assert state.all_states(place.workdir) == []
