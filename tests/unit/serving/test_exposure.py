from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from keyelab.errors import UsageError
from keyelab.params import Serve
from keyelab.serving import exposure
from keyelab.serving.command import ServerPlan
from keyelab.serving.observed import Observed
from keyelab.serving.state import ServerState

KEY = "planted-0123456789abcdef"
SERVER = ServerState(
    pid=1, argv=[], key="", url="", host="", port=8082, log="", started="", run_dir="", file=""
)


@pytest.fixture
def key_file(tmp_path: Path) -> str:
    path = tmp_path / "key"
    path.write_text(KEY + "\n")
    path.chmod(0o600)
    return str(path)


@pytest.fixture
def exposed(make_plan: Callable[..., ServerPlan]) -> Callable[..., ServerPlan]:
    """A plan with these parameters, unchecked."""

    def make(**given: Any) -> ServerPlan:
        plan = make_plan()
        return dataclasses.replace(plan, params=plan.params.model_copy(update=given))

    return make


@pytest.mark.parametrize(
    ("host", "local"),
    [
        ("127.0.0.1", True), ("127.0.0.2", True), ("::1", True), ("localhost", True),
        ("0.0.0.0", False), ("::", False), ("10.0.0.5", False), ("gpu-host", False), ("", False),
    ],
)  # fmt: skip
def test_loopback_is_told_from_addresses_that_others_reach(host: str, local: bool) -> None:
    assert exposure.is_loopback(host) is local


def test_an_open_address_without_a_key_is_refused(
    monkeypatch: pytest.MonkeyPatch, key_file: str
) -> None:
    monkeypatch.delenv("LLAMA_API_KEY", raising=False)
    with pytest.raises(UsageError, match=r"0\.0\.0\.0, which others can reach"):
        exposure.require_key(Serve(host="0.0.0.0"))
    exposure.require_key(Serve(host="127.0.0.1"))
    exposure.require_key(Serve(host="0.0.0.0", api_key_file=key_file))
    monkeypatch.setenv("LLAMA_API_KEY", KEY)
    exposure.require_key(Serve(host="0.0.0.0"))


@pytest.mark.parametrize(("keyless", "status"), [(401, "ok"), (200, "failed"), (None, "unknown")])
def test_a_key_counts_only_when_the_server_asks_for_it(
    exposed: Callable[..., ServerPlan], key_file: str, keyless: int | None, status: str
) -> None:
    plan = exposed(host="0.0.0.0", api_key_file=key_file)
    assert exposure.verdict(plan, Observed(keyless=keyless)).status == status


def test_an_open_server_without_a_key_fails(exposed: Callable[..., ServerPlan]) -> None:
    assert exposure.verdict(exposed(host="0.0.0.0"), Observed(keyless=200)).status == "failed"
    assert exposure.verdict(exposed(), Observed(keyless=200)).status == "ok"


def test_what_others_reach_is_said_without_the_key(
    exposed: Callable[..., ServerPlan], key_file: str
) -> None:
    plan = exposed(host="0.0.0.0", api_key_file=key_file)
    seen = Observed(props={"endpoint_slots": True, "endpoint_metrics": False})
    text = exposure.said(plan, [SERVER], seen)
    assert ("0.0.0.0, port 8082" in text, "plain HTTP" in text) == (True, True)
    assert ("/slots" in text, "/metrics" in text) == (True, False)
    assert KEY not in text
    assert "this machine only" in exposure.said(exposed(), [SERVER], seen)
