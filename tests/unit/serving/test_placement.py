"""Judged on the start of real CUDA servers (tests/data/serving/start, two H200)."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import pytest

from keyelab.checks import Check
from keyelab.serving import placement, startup
from keyelab.serving.command import ServerPlan
from keyelab.serving.observed import Observed

LOGS = Path(__file__).parents[2] / "data" / "serving" / "start"
CARDS = ("0000:00:06.0", "0000:00:07.0")
Judge = Callable[..., dict[str, Check]]


@pytest.fixture
def judge(make_plan: Callable[..., ServerPlan]) -> Judge:
    """Checks by name, of a log, for a server that was planned on so many cards."""

    def of(
        log: str, count: int = 1, options: tuple[str, ...] = (), grown: int | None = None,
        **given: object,
    ) -> dict[str, Check]:  # fmt: skip
        backend = "cuda" if count else "cpu"
        made = make_plan()  # the stub lists no device to choose
        plan = dataclasses.replace(
            made,
            params=made.params.model_copy(update=given),
            backend=backend,
            cards=CARDS[:count],
            options=options,
        )
        start = startup.read((LOGS / f"{log}.log").read_text().splitlines())
        seen = Observed(start=start, card_bytes=dict.fromkeys(plan.cards, grown))
        return {item.name: item for item in placement.checks(plan, seen)}

    return of


def bad(found: dict[str, Check]) -> dict[str, str]:
    return {name: one.status for name, one in found.items() if one.status in ("failed", "warned")}


@pytest.mark.parametrize("log", ["cpu", "cpu-b11434"])
def test_a_cpu_build_on_the_cpu_is_right(judge: Judge, log: str) -> None:
    found = judge(log, 0)
    assert bad(found) == {}
    assert "unknown" not in {one.status for one in found.values()}


def test_two_cards_are_right_and_their_fallbacks_are_told(judge: Judge) -> None:
    found = judge("h200-two", 2)
    assert bad(found) == {"kernel fallbacks": "warned"}
    assert found["weights"].found == "CPU_Mapped 0.12 MiB, CUDA0 0.76 MiB, CUDA1 0.50 MiB"
    assert found["devices"].found == "CUDA0, CUDA1"


@pytest.mark.parametrize("log", ["h200-none", "h200-hidden"])
def test_a_healthy_server_on_the_cpu_fails_on_a_gpu_target(judge: Judge, log: str) -> None:
    found = bad(judge(log))
    assert [found[name] for name in ("weights", "context state", "devices")] == ["failed"] * 3
    assert ("projector's device" in found) == (log == "h200-hidden")


def test_layers_left_on_the_cpu_fail_unless_they_were_asked_for(judge: Judge) -> None:
    unasked = bad(judge("h200-partial"))
    assert [unasked[name] for name in ("weights", "layers on the cards")] == ["failed"] * 2
    assert unasked["graph splits"] == "warned"
    asked = bad(judge("h200-partial", options=("-ngl", "1")))
    assert [asked[name] for name in ("weights", "layers on the cards")] == ["warned"] * 2


def test_projector_on_the_cpu_fails_unless_it_was_asked_for(judge: Judge) -> None:
    assert bad(judge("h200-projcpu"))["projector's device"] == "failed"
    asked = judge("h200-projcpu", options=("--no-mmproj-offload",))
    assert asked["projector's device"].status == "ok"


def test_fewer_cards_than_planned_fail(judge: Judge) -> None:
    assert bad(judge("h200-faoff", 2))["devices"] == "failed"
    assert bad(judge("h200-faoff", 1)) == {}


@pytest.mark.parametrize(("name", "status"), [("CUDA0", "ok"), ("CUDA1", "failed")])
def test_named_devices_are_the_ones_that_must_be_used(judge: Judge, name: str, status: str) -> None:
    assert judge("h200-faoff", 2, devices=name)["devices"].status == status


def test_a_model_put_on_the_cpu_by_name_is_as_declared(judge: Judge) -> None:
    found = bad(judge("h200-none", devices="none"))
    assert {*found} == {"kernel fallbacks"}, "and the projector may stay on the card"


def test_one_card_of_two_holds_the_whole_model_without_a_split(judge: Judge) -> None:
    name = f"memory of card {CARDS[0]}"
    expected = judge("h200-faoff", 1, grown=0)[name].expected
    assert judge("h200-faoff", 2, split_mode="none", grown=0)[name].expected == expected


def test_flash_attention_must_be_as_declared(judge: Judge) -> None:
    verdicts = {
        asked: judge("h200-faoff", flash_attention=asked)["flash attention"].status
        for asked in ("auto", "on", "off")
    }
    assert verdicts == {"auto": "ok", "on": "failed", "off": "ok"}


def test_memory_above_the_plan_warns_and_unknown_memory_is_unknown(judge: Judge) -> None:
    name = f"memory of card {CARDS[0]}"
    statuses = [judge("h200-faoff", grown=n)[name].status for n in (2**30, 3 * 2**30, None)]
    assert statuses == ["ok", "warned", "unknown"]


def test_a_tensor_split_has_no_norm_for_its_parts(judge: Judge) -> None:
    found = judge("h200-tensor", 2, split_mode="tensor")
    assert "graph splits" not in found
    assert (found["devices"].status, found["weights"].status) == ("unknown", "ok")


def test_a_silent_log_is_unknown_and_never_a_pass(judge: Judge, tmp_path: Path) -> None:
    (tmp_path / "silent.log").write_text("nothing\n")
    found = judge(str(tmp_path / "silent"))
    assert {one.status for one in found.values()} == {"unknown"}
