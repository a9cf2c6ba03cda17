"""The choice of cards: arithmetic, one socket, idle, as few as fit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from recorded_host import PARAMS

from keyelab.facts import DeviceFact
from keyelab.host import picture, select

GIB = 2**30


def cards(count: int = 8, **changed: Any) -> list[DeviceFact]:
    facts: dict[str, Any] = {
        "memory_bytes": 64 * GIB,
        "memory_used_bytes": 0,
        "busy": False,
        "arch": "gfx928",
    }
    facts |= changed
    return [
        DeviceFact(pci_address=f"0000:{n:02x}:00.0", index=n, **{"socket": n // 4, **facts})
        for n in range(count)
    ]


def chosen(devices: list[DeviceFact], env: dict[str, str] | None = None, **params: Any) -> Any:
    asked = PARAMS.model_copy(update=params)
    return select.choose(devices, env or {}, asked)


def numbers(choice: Any) -> list[int]:
    return [device.index for device in choice.cards]


def test_the_articles_model_takes_two_cards_of_64_gib() -> None:
    assert select.state_gib(PARAMS) == pytest.approx(28.5)
    assert select.need_gib(PARAMS, 1) == pytest.approx(53.1 + 28.5 + 1.5 + 2)
    assert select.need_gib(PARAMS, 2) == pytest.approx((53.1 + 28.5) / 2 + 1.5 + 2)
    assert numbers(chosen(cards())) == [0, 1]


def test_a_quarter_of_the_context_fits_one_card() -> None:
    assert numbers(chosen(cards(), context_tokens=32768)) == [0]


def test_cards_of_one_socket_come_before_fewer_of_two() -> None:
    devices = cards()
    for n in (0, 1, 2, 5, 6, 7):
        devices[n] = devices[n].model_copy(update={"memory_used_bytes": 34 * GIB})
    assert numbers(chosen(devices)) == [0, 1, 2, 3]
    for n in (0, 1, 2, 5, 6, 7):
        devices[n] = devices[n].model_copy(update={"busy": True})
    choice = chosen(devices)
    assert (numbers(choice), choice.one_socket) == ([3, 4], False)


@pytest.mark.parametrize(
    "fault", [{"busy": True}, {"busy": None}, {"healthy": False}, {"mode": "MIG"},
              {"memory_used_bytes": None}, {"memory_bytes": None}, {"index": None}],
)  # fmt: skip
def test_a_card_that_is_not_known_to_be_free_is_not_chosen(fault: dict[str, Any]) -> None:
    devices = cards()
    devices[0] = devices[0].model_copy(update=fault)
    assert numbers(chosen(devices)) == [1, 2]


def test_cards_of_two_kinds_are_not_mixed() -> None:
    devices = cards(2)
    devices[1] = devices[1].model_copy(update={"arch": "gfx936"})
    assert numbers(chosen(devices)) == []


def test_an_unknown_socket_is_unknown() -> None:
    assert chosen(cards(socket=None)).one_socket is None
    assert chosen(cards(socket=None, numa_node=0)).one_socket is True
    checks = {c.name: c.status for c in select.choice_checks(chosen(cards(socket=None)))}
    assert checks == {"choice: cards for serving": "ok", "choice: one socket": "unknown"}


def test_named_cards_are_an_order_and_must_be_there() -> None:
    assert numbers(chosen(cards(), cards="7, 2")) == [7, 2]
    assert numbers(chosen(cards(), cards="7,9")) == []


def test_what_the_environment_hides_is_not_chosen() -> None:
    assert numbers(chosen(cards(), {"HIP_VISIBLE_DEVICES": "4,5,6"})) == [4, 5]
    assert numbers(chosen(cards(), {"HIP_VISIBLE_DEVICES": ""})) == []


def test_no_model_no_choice() -> None:
    choice = chosen(cards(), weights_gib=0.0)
    assert (choice.cards, select.environment(choice, "hip")) == ((), {})


def test_programs_see_the_chosen_cards_only() -> None:
    choice = chosen(cards())
    assert select.environment(choice, "hip") == {"HIP_VISIBLE_DEVICES": "0,1"}
    assert select.environment(choice, "cuda") == {
        "CUDA_VISIBLE_DEVICES": "0,1", "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
    }  # fmt: skip
    assert select.environment(choice, "cpu") == {}


def test_the_arithmetic_is_shown() -> None:
    rows = select.rows(PARAMS, 8)
    assert {row["what"]: row["memory"] for row in rows} == {
        "weights": "53.1 GiB", "KV state": "28.5 GiB", "projector": "1.5 GiB",
        "compute buffers": "2.0 GiB", "on each of 1, at most": "85.1 GiB",
        "on each of 2, at most": "44.3 GiB", "on each of 4, at most": "23.9 GiB",
        "on each of 8, at most": "13.7 GiB",
    }  # fmt: skip
    assert "262,144 tokens × 114 KiB" in rows[1]["because"]


def test_a_picture_is_drawn_of_whatever_is_known(tmp_path: Path) -> None:
    devices = [*cards(2), DeviceFact(pci_address="0000:c7:00.0"), *cards(1, busy=True)]
    path = picture.draw(tmp_path / "cards.png", devices, ["0000:00:00.0"])
    assert path.read_bytes().startswith(b"\x89PNG")
    assert [picture.state(d, ["0000:00:00.0"]) for d in devices[1:3]] == ["idle", "use unknown"]
