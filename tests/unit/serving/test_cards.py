from __future__ import annotations

from typing import Any

import pytest

from keyelab.errors import UsageError
from keyelab.facts import DeviceFact, EnvFacts, ModelFacts
from keyelab.params import Serve
from keyelab.serving import cards


@pytest.fixture
def shares(host: EnvFacts, model: ModelFacts) -> Any:
    """Shares on a machine with so many cards, of so many GiB each, for a model of so many."""

    def make(
        count: int = 8, env: Any = None, backend: str = "hip", card_gib: float = 64,
        model_gib: float = 57, **given: Any,
    ) -> list[cards.Share]:  # fmt: skip
        size = int(card_gib * 2**30)
        devices = [
            DeviceFact(index=i, pci_address=f"0000:{i:02x}:00.0", memory_bytes=size)
            for i in range(count)
        ]
        model.model.size_bytes = int(model_gib * 2**30)
        facts = host.model_copy(update={"devices": devices})
        return cards.shares(Serve(**given), backend, facts, model, env or {})

    return make


def test_one_server_takes_the_visible_cards_and_sets_nothing(shares: Any) -> None:
    (share,) = shares(env={"HIP_VISIBLE_DEVICES": "2,3"})
    assert share.cards == ("0000:02:00.0", "0000:03:00.0")
    assert share.environment == {}
    assert len(shares()[0].cards) == 8


def test_replicas_get_disjoint_cards_by_the_variable_of_the_backend(shares: Any) -> None:
    one, two = shares(replicas=2, env={"HIP_VISIBLE_DEVICES": "4,5,6,7"})
    assert one.environment == {"HIP_VISIBLE_DEVICES": "4,5"}
    assert two.environment == {"HIP_VISIBLE_DEVICES": "6,7"}
    assert two.cards == ("0000:06:00.0", "0000:07:00.0")
    assert shares(replicas=8, backend="cuda")[7].environment == {
        "CUDA_VISIBLE_DEVICES": "7",
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
    }


def test_card_without_a_known_address_keeps_its_name(shares: Any) -> None:
    (share,) = shares(backend="cuda", env={"CUDA_VISIBLE_DEVICES": "GPU-0b1c"})
    assert share.cards == ("GPU-0b1c",)


@pytest.mark.parametrize(("count", "replicas"), [(8, 3), (2, 4), (0, 2)])
def test_cards_that_cannot_be_shared_evenly_are_refused(
    shares: Any, count: int, replicas: int
) -> None:
    with pytest.raises(UsageError, match=f"{replicas} servers share evenly, found {count}"):
        shares(count=count, replicas=replicas)


def test_possible_numbers_of_replicas_are_named(shares: Any) -> None:
    with pytest.raises(UsageError) as error:
        shares(replicas=3)
    assert "1 or 2 or 4 or 8" in error.value.hint


def test_device_names_and_replicas_exclude_each_other(shares: Any) -> None:
    with pytest.raises(UsageError, match=r"serve\.devices empty"):
        shares(replicas=2, devices="ROCm0")


def test_weights_that_cannot_fit_are_refused(shares: Any) -> None:
    with pytest.raises(UsageError, match=r"\(57\.0 GiB\), found 1 for each server with 32\.0 GiB"):
        shares(replicas=8, card_gib=32)
    assert len(shares(replicas=4, card_gib=32)) == 4
    assert len(shares(replicas=8, card_gib=32, fit=True)) == 8
    assert len(shares(replicas=8, card_gib=32, extra_args=["--cpu-moe"])) == 8


def test_cores_are_shared_without_cards(shares: Any) -> None:
    assert [s.threads for s in shares(0, backend="cpu", replicas=2)] == [2, 2]
    assert [s.threads for s in shares(0, backend="cpu", replicas=2, threads=3)] == [3, 3]
    assert shares(0, backend="cpu")[0] == cards.Share()
    with pytest.raises(UsageError, match="a core for each of 5 servers, found 4"):
        shares(0, backend="cpu", replicas=5)
