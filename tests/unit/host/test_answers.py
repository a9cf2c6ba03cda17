"""hy-smi and rocm-smi: every sample is read by name, and nothing raises on what is no answer."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from recorded_host import SAMPLES

from keyelab.host import answers
from keyelab.host.machine import numbers, version_in
from keyelab.host.reading import Reading

MIB = 2**20
TEXTS = {path.name: path.read_text(encoding="utf-8") for path in sorted(SAMPLES.glob("*.txt"))}
NO_CARD = {
    "build_errors_dtk2604", "dtk2604_version_strings", "dtk_version_file_vendor_fixture",
    "gpustack_detect_k100ai_json", "hipcc_version_dtk25", "hipconfig_version_dtk25",
    "hy-smi_showdriverversion_text", "hy-smi_showpids_busy", "hy-smi_showpids_empty",
    "hy-smi_showpids_busy_percent_inf_DERIVED", "hy-smi_unsupported_json_message",
    "hy-smi_versions_vendor_fixture", "invalid_kernel_file_218", "launch_bounds_vmfault_dump",
    "llama_launch_bounds_and_no_device_code", "llama_server_log_k100ai_x8_excerpt",
    "lspci_k100ai_line", "rocm_agent_enumerator_tail1_DERIVED", "rocminfo_gfx928_facts_DERIVED",
    "rocminfo_hcu_bw_x2_vendor_fixture", "rocminfo_z100l_pools_excerpt",
    "torch_collect_env_k100ai_excerpt",
}  # fmt: skip


def sample(name: str) -> str:
    return TEXTS[f"{name}.txt"]


def card(name: str, number: int = 0) -> Reading:
    return answers.read(sample(name))[number]


def test_exactly_the_answers_about_cards_name_cards() -> None:
    silent = {Path(name).stem for name, text in TEXTS.items() if not answers.read(text)}
    assert silent == NO_CARD


@pytest.mark.parametrize(
    ("name", "cards", "expected"),
    [
        ("hy-smi_table_k100ai_x8_loaded", 8,
         Reading(mode="Normal", memory_percent=85, use_percent=0, temperature_c=60, power_w=113)),
        ("hy-smi_table_hcu_dec_enc_x8_idle", 8,
         Reading(mode="Normal", memory_percent=0, use_percent=0, temperature_c=40, power_w=157)),
        ("hy-smi_table_old_dcu_fan_lowercase", 4,
         Reading(memory_percent=0, use_percent=0, temperature_c=44, power_w=20)),
        ("hy-smi_table_old_dcu_with_clocks", 2,
         Reading(memory_percent=0, use_percent=0, temperature_c=44, power_w=20)),
        ("hy-smi_table_dcu_mode_fan_3rdparty_fixture", 2,
         Reading(mode="Normal", memory_percent=18, use_percent=96, temperature_c=51, power_w=75)),
        ("hsmi_boxed_layout_3rdparty_fixture", 1,
         Reading(name="K100-AI", memory_bytes=65536 * MIB, memory_used_bytes=32 * MIB,
                 temperature_c=45)),
        ("hy-smi_multi_query_json_k100ai", 2,
         Reading(name="K100_AI", memory_bytes=65520 * MIB,
                 memory_used_bytes=2 * MIB, use_percent=0, temperature_c=37, power_w=77)),
        ("hy-smi_multi_query_json_z100l_noisy_RECONSTRUCTED", 1,
         Reading(memory_bytes=32752 * MIB, memory_used_bytes=0,
                 use_percent=0)),
        ("hy-smi_json_MALFORMED_power_hyhal_short", 1,
         Reading(memory_bytes=65520 * MIB, memory_used_bytes=1166 * MIB, use_percent=0,
                 power_w=80)),
        ("hy-smi_json_MALFORMED_missing_commas_bw_x2", 2,
         Reading(name="BW", memory_bytes=65520 * MIB, memory_used_bytes=64169 * MIB,
                 memory_percent=98, use_percent=0, temperature_c=54, power_w=91,
                 link="32.0GT/s x16")),
        ("hy-smi_metrics_json_vendor_fixture", 2,
         Reading(pci_address="0000:09:00.0", memory_bytes=65520 * MIB,
                 memory_used_bytes=20413 * MIB, memory_percent=31, use_percent=0)),
        ("hy-smi_text_lines_hcu_use_vram", 1,
         Reading(memory_bytes=65520 * MIB, memory_used_bytes=3 * MIB, use_percent=0)),
        ("hy-smi_showclocks_k100ai", 1, Reading(link="16.0GT/s x16")),
        ("hy-smi_showid_k100ai_x8", 8, Reading()),
        ("hy-smi_showproductname_k100ai", 1, Reading(name="K100_AI")),
        ("hy-smi_showproductname_empty_series_k100", 1, Reading()),
        ("hy-smi_showtopo_k100ai_x8", 8, Reading(numa_node=0)),
        ("hy-smi_healthcheck", 1, Reading(healthy=True)),
        ("hy-smi_showbus_json_bw", 2, Reading(pci_address="0000:09:00.0")),
    ],
)  # fmt: skip
def test_a_sample_reads_as(name: str, cards: int, expected: Reading) -> None:
    assert len(answers.read(sample(name))) == cards
    assert card(name) == expected


def test_later_cards_have_their_own_readings() -> None:
    assert card("hy-smi_mig_table_bw_x2_one_mig", 1).mode == "MIG"
    assert card("hy-smi_showbus_json_bw", 1).pci_address == "0000:36:00.0"
    nodes = [
        r.numa_node
        for r in answers.read(sample("hy-smi_showtoponuma_json_two_sockets_x8")).values()
    ]
    assert nodes == [0, 0, 0, 0, 4, 4, 4, 4]


def test_who_holds_a_card_is_read_without_the_share_that_is_infinite() -> None:
    busy = {1000001: "9.4 GiB on 0000:09:00.0"}
    assert answers.holders(sample("hy-smi_showpids_busy")) == busy
    held = answers.holders(sample("hy-smi_showpids_busy_percent_inf_DERIVED"))
    assert [text[:8] for text in held.values()] == ["51.5 GiB"]
    assert answers.holders(sample("hy-smi_showpids_empty")) == {}
    assert answers.holders("PID: 7\n\tVRAM USED(MiB): inf\n") == {7: "unknown on unknown cards"}


@pytest.mark.parametrize(
    ("text", "version"),
    [
        (sample("hy-smi_showdriverversion_text"), "6.3.31-V1.5.0a"),
        (sample("hy-smi_versions_vendor_fixture"), "6.3.32-V1.6.0"),
        ("Driver version: rock-6.3.13", "rock-6.3.13"),
        ("6.3.28-V1.3.0b\n", "6.3.28-V1.3.0b"),
        ("This command does not support", None),
    ],
)
def test_driver_versions_keep_their_suffix(text: str, version: str | None) -> None:
    assert answers.driver_version(text) == version


@pytest.mark.parametrize(
    ("version", "expected"),
    [("6.3.31-V1.5.0a", (6, 3, 31)), ("26.04.beta", (26, 4)), ("rock-6.3", ()), (None, ())],
)
def test_only_leading_numbers_of_a_version_compare(version: str | None, expected: object) -> None:
    assert numbers(version) == expected


def test_toolkit_samples_have_versions() -> None:
    assert version_in(sample("hipcc_version_dtk25")) == "25.10.0-0"
    assert version_in(sample("hipconfig_version_dtk25")) == "6.2.0-0"
    strings = sample("dtk2604_version_strings").splitlines()
    assert [version_in(line) for line in strings[1:]] == ["26.02.0-0", "6.3.26093"]


@pytest.mark.parametrize("value", ["inf", "nan", "N/A", "", "-1", "250", "9" * 40, "unsupported"])
def test_what_is_no_number_is_unknown_and_not_zero(value: str) -> None:
    text = f'{{"card0": {{"HCU use (%)": "{value}", "Device ID": "0x6210"}}}}'
    assert answers.read(text)[0].use_percent is None


def test_the_repair_changes_no_sample_that_is_whole() -> None:
    broken = {name for name in TEXTS if "MALFORMED" in name}
    for name in TEXTS.keys() - broken:
        text = TEXTS[name]
        if '"card0"' in text:
            assert answers._NO_COMMA.sub('", "', text) == text


def test_rocm_smi_of_amd_speaks_in_bytes() -> None:
    text = '{"card0": {"VRAM Total Memory (B)": "17163091968", "VRAM Total Used Memory (B)": "9"}}'
    reading = answers.read(text)[0]
    assert (reading.memory_bytes, reading.memory_used_bytes) == (17163091968, 9)


def everything(text: str) -> None:
    answers.read(text)
    answers.holders(text)
    answers.driver_version(text)
    answers.agents(text)
    answers.acs_on(text)
    answers.unassigned(text)


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(sorted(TEXTS)), st.integers(0, 8000), st.randoms(use_true_random=False))
def test_no_parser_raises_on_a_cut_or_shuffled_sample(
    name: str, cut: int, chance: random.Random
) -> None:
    text = TEXTS[name]
    everything(text[:cut])
    everything(text[cut:])
    lines = text.splitlines(keepends=True)
    chance.shuffle(lines)
    everything("".join(lines))
    words = text.split(" ")
    chance.shuffle(words)
    everything(" ".join(words))


@settings(max_examples=200, deadline=None)
@given(st.text())
def test_no_parser_raises_on_any_text(text: str) -> None:
    everything(text)
    everything(f'{{"card0": {{"HCU use (%)": "{text}"}}}}\nHCU[0]\t: {text}\n0000:09:00.0 {text}')


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(sorted(TEXTS)), st.integers(0, 2000))
def test_a_cut_answer_never_makes_up_a_number(name: str, cut: int) -> None:
    """Whole JSON values stay what they were or become unknown: a cut one is no number."""
    if not name.startswith("hy-smi_multi_query_json_k100ai"):
        return
    whole, part = answers.read(TEXTS[name]), answers.read(TEXTS[name][:cut])
    for number, reading in part.items():
        for field, value in vars(reading).items():
            assert value in (None, vars(whole[number])[field])
