"""On logs of llama-server b10019 with the demo model: a CPU build, and a CUDA build on two H200
(2026-12-01); one of a CPU build of b11434. No log of a K100_AI at this verbosity exists."""

from __future__ import annotations

from pathlib import Path

import pytest

from keyelab.files import project_root
from keyelab.serving import startup
from keyelab.serving.startup import Startup, is_host

LOGS = Path(__file__).parents[2] / "data" / "serving" / "start"


def read(name: str) -> Startup:
    return startup.read((LOGS / f"{name}.log").read_text().splitlines())


def test_buffers_are_counted_by_device_over_two_cards() -> None:
    found = read("h200-two")
    assert found.devices() == ["CUDA0", "CUDA1"]
    assert found.weights_mib == {"CPU_Mapped": 0.12, "CUDA0": 0.76, "CUDA1": 0.50}
    assert found.state_mib == {"CUDA0": 2.0, "CUDA1": 1.0}
    # the projector's graph is reserved twice there: the second time without flash attention
    assert found.projector_mib == {"CUDA0": 844.77, "CPU": 24.93}
    assert found.buffers_mib()["CUDA0"] == pytest.approx(0.76 + 2.0 + 66.06 + 844.77)
    assert (found.splits, found.projector_splits) == (3, 1)


def test_offloaded_layers_are_logged_although_all_is_on_the_cpu() -> None:
    found = read("h200-none")
    assert found.layers == (4, 4)
    assert found.devices() == []


def test_no_card_visible_leaves_neither_layers_nor_a_card() -> None:
    found = read("h200-hidden")
    assert (found.layers, found.devices(), found.projector) == (None, [], "CPU")


def test_a_part_on_the_cpu_shows_in_layers_and_splits() -> None:
    found = read("h200-partial")
    assert (found.layers, found.splits) == ((1, 4), 38)


@pytest.mark.parametrize(
    ("name", "attention"),
    [("cpu", True), ("h200-two", False), ("h200-faoff", False), ("h200-tensor", True)],
)
def test_flash_attention_is_what_came_of_auto(name: str, attention: bool) -> None:
    assert read(name).flash_attention is attention


def test_fallbacks_are_named() -> None:
    found = read("h200-two").fallbacks
    assert found[0].endswith("but Flash Attention is assigned to device CPU")
    assert found[1].startswith("flash attention not supported by CUDA0")
    assert found[2:] == ["SOFT_MAX", "CONT", "PERMUTE"]
    assert read("cpu").fallbacks == []


def test_projector_on_the_cpu_is_seen_beside_a_model_on_the_card() -> None:
    found = read("h200-projcpu")
    assert (found.projector, found.devices()) == ("CPU", ["CUDA0"])
    assert found.projector_file == "models/mmproj-keyelab-tiny-f16.gguf"


@pytest.mark.parametrize(
    ("line", "splits", "projector"),
    [
        ("sched_reserve: graph splits = 98 (with bs=512), 50 (with bs=1)", 98, None),
        ("sched_reserve: graph (pp bs=512, tg bs=1): nodes = 174 / 159, splits = 2 / 98, input "
         "objects = 9, input tensors = 9", 98, None),
        ("sched_reserve: graph: nodes = 159, splits = 1, input objects = 9", 1, None),
        ("reserve_compute_meta: graph splits = 7, nodes = 127", None, 7),
    ],
)  # fmt: skip
def test_splits_are_read_in_the_forms_of_b10019_and_b11434(
    line: str, splits: int | None, projector: int | None
) -> None:
    found = startup.read([line])
    assert (found.splits, found.projector_splits) == (splits, projector)


def test_context_that_was_cut_to_fit_is_seen() -> None:
    line = "common_fit: context size reduced from 262144 to 65536 -> need 1 MiB less"
    assert startup.read([line]).shrunk == (262144, 65536)


def test_lines_after_the_start_are_not_read() -> None:
    late = ["listening on http://127.0.0.1:1", "load_tensors: offloaded 4/4 layers to GPU"]
    assert startup.read(late).layers is None


def test_the_articles_log_says_nothing_of_buffers() -> None:
    log = project_root() / "keyelab" / "perf" / "data" / "article_server.log"
    found = startup.read(log.read_text().splitlines())
    assert (found.devices(), found.layers, found.splits, found.flash_attention) == (
        [], None, None, None,
    )  # fmt: skip
    assert found.projector_file is not None


def test_host_buffers_are_told_from_those_of_a_card() -> None:
    host = ["CPU", "CPU_Mapped", "CPU_REPACK", "AMX", "ROCm_Host", "CUDA_Host"]
    assert [
        name for name in [*host, "ROCm0", "CUDA1", "ROCm_Split", "Meta()"] if is_host(name)
    ] == host
