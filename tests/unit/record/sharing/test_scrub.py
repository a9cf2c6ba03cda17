"""No kind of secret or personal data survives, however it is written; nothing else is changed."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from planted import ENCODINGS, KINDS, Kind, readings

from keyelab.files import redact
from keyelab.record.sharing.scrub import Scrubber

DATA = Path(__file__).parents[3] / "data"
PACKAGE_LOG = Path(__file__).parents[4] / "keyelab" / "perf" / "data" / "article_server.log"


def shared(text: str) -> str:
    """`text` after both rounds."""
    scrubber = Scrubber()
    scrubber.text(text)
    scrubber.learnt()
    return scrubber.text(text)


def test_there_are_at_least_forty_kinds() -> None:
    assert len({kind.name for kind in KINDS}) == len(KINDS) >= 40


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
@settings(max_examples=6, deadline=None)
@given(data=st.data())
def test_kind_survives_in_no_encoding(kind: Kind, data: st.DataObject) -> None:
    value = data.draw(st.from_regex(kind.pattern, fullmatch=True))
    name, encode = data.draw(st.sampled_from(sorted(ENCODINGS.items())))
    text = encode(kind.text.replace("{}", value))
    left = shared(text)
    assert not any(value in reading for reading in readings(left)), (name, text, left)
    assert shared(left) == left, "an alias stays as it is"


@pytest.mark.parametrize(
    "text",
    [
        "20261201T080847Z-a77d5e8d",
        "commit 39f847f49cddaabbccddeeff00112233445566aa",
        "DTK 26.04, HIP 6.3.28-V1.3.0b, CUDA 13.0.88.1, driver: 6.16.12.4",
        "nvidia-curand-cu12==10.3.5.147 nvidia_curand_cu12-10.3.5.147-py3-none-any.whl",
        "libcublas.so.12.4.5.8 cmake>=3.28.1.2 v10.1.2.3",
        "10.03.096.274 I slot launch_slot_: id 0",
        "10.13.196.174 I srv  log_server_r: request: POST /v1/chat/completions 127.0.0.1 200",
        "\x1b[32m10.13.196.174\x1b[0m \x1b[34mI \x1b[0msrv update_slots: all slots are idle",
        "http://127.0.0.1:8080 http://localhost:8080 http://[::1]:80 0.0.0.0 255.255.255.0",
        "b10019 0000:3b:00.0 00:00:00:00:00:00 08:12:04 2026-12-01T08:12:04Z 26-12-01-08-47-00",
        "std::vector<ggml::cpy> add::bad face::feed abc::def",
        "git clone https://github.com/ggml-org/llama.cpp git@github.com:a/b",
        "/opt/dtk/bin:/usr/lib /root/x /home /data/models/Keye.gguf",
        '{"token": 151643, "prompt_tokens": "many", "role": "user", "host": "127.0.0.1"}',
        "Uuid: GPU-XX  Unique ID: N/A  Serial Number: unknown",
        "sha256:974dd25d1b6b7b8e0f9f0a8a3c8d2e1f00112233445566778899aabbccddeeff",
    ],
)
def test_what_is_no_personal_data_stays(text: str) -> None:
    assert shared(text) == text
    assert shared(json.dumps({"found": text})) == json.dumps({"found": text})


def test_real_logs_stay_as_they_are() -> None:
    logs = [PACKAGE_LOG, *DATA.rglob("*.log"), *(DATA / "host").rglob("*.txt")]
    changed = {
        path.name: [new for old, new in zip(text.split("\n"), left.split("\n"), strict=True)
                    if old != new]
        for path in logs
        if (text := path.read_text(errors="replace")) != (left := shared(text))
    }  # fmt: skip
    assert len(logs) > 50
    told = {name for name, lines in changed.items() if not re.search("serial-a|uuid-a", lines[0])}
    assert told == set(), "only serial numbers and ids of cards"


def test_key_before_a_value_tells_what_it_is() -> None:
    scrubber = Scrubber()
    value = {
        "hostname": "qzhost", "argv": ["--api-key", "Qzsecret1"], "cuda_version": "13.0.88.1",
        "checks": [{"name": "user", "found": "zqzoe"}], "peer": ["qzhost", "10.1.2.3"],
    }  # fmt: skip
    scrubber.json(value)
    scrubber.learnt()
    assert scrubber.json(value) == {
        "hostname": "host-a", "argv": ["--api-key", "[secret-a]"], "cuda_version": "13.0.88.1",
        "checks": [{"name": "user", "found": "user-a"}], "peer": ["host-a", "ip-a"],
    }  # fmt: skip


@pytest.mark.parametrize(
    "kind", [k for k in KINDS if k.text == "saw {} there"], ids=lambda k: k.name
)
@settings(max_examples=3, deadline=None)
@given(data=st.data())
def test_key_of_a_known_format_is_hidden_already_when_a_record_is_written(
    kind: Kind, data: st.DataObject
) -> None:
    value = data.draw(st.from_regex(kind.pattern, fullmatch=True))
    assert redact(f"saw {value} there") == "saw [redacted] there"


def test_short_and_full_name_of_a_host_are_one() -> None:
    assert shared("HOSTNAME=qz-07\nhttp://qz-07.corp.lan/ QZ-07") == (
        "HOSTNAME=host-a\nhttp://host-a/ host-a"
    )
