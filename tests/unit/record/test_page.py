"""index.html tells what was asked, and how: frames or the video itself, clips, servers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from keyelab.params import PARAMETERS
from keyelab.record import page
from keyelab.record.run import PhaseRecord, Run, Tool

ANSWER = {
    "answer": "a red circle", "reasoning": "", "finish_reason": "stop", "ttft_s": 1.0,
    "total_s": 2.0, "usage": {}, "timings": {}, "error": "",
}  # fmt: skip
VIDEO = {
    **ANSWER, "prompt": "What?", "duration_s": 4.0, "mode": "frames", "coverage": 0.9,
    "frames": [{}, {}], "more": [], "clips": [],
}  # fmt: skip
SERVER = {
    "alias": "keye", "url": "http://127.0.0.1:1", "ready_s": None, "slots": 1,
    "context_tokens": 4096, "devices": ["ROCm0"],
}  # fmt: skip


def index(folder: Path, phase: str, facts: dict[str, Any]) -> str:
    entries = [
        PhaseRecord(phase=name, notebook=f"{name}.ipynb", facts=facts if name == phase else None)
        for name in PARAMETERS
    ]
    run = Run(
        run_id="r", target="cpu-demo", started="", command=["keyelab"], pid=1, tool=Tool(),
        phases=entries,
    )  # fmt: skip
    return page.index_html(run, folder)


@pytest.mark.parametrize(
    ("mode", "said"),
    [
        ("frames", "Asked about 2 frames of a video of 4.00 s, which span 90 % of it"),
        ("native", "Asked about the video itself, 4.00 s"),
    ],
)
def test_it_tells_what_the_model_was_shown(tmp_path: Path, mode: str, said: str) -> None:
    assert said in index(tmp_path, "video_test", {**VIDEO, "mode": mode})


def test_further_questions_and_clips_are_shown_with_what_went_wrong(tmp_path: Path) -> None:
    failed = {**ANSWER, "prompt": "Which way?", "answer": "", "error": "it took too long"}
    clips = [
        {**ANSWER, "prompt": "", "name": "a.mp4", "expected": ["red", "left"], "right": right}
        for right in (True, False, None)
    ]
    text = index(tmp_path, "video_test", {**VIDEO, "more": [failed], "clips": clips})
    assert "Which way?" in text
    assert "it took too long" in text
    assert "1 of 3 right" in text
    assert "<td>red, left</td><td>a red circle</td><td>unknown</td>" in text


def test_every_replica_is_named(tmp_path: Path) -> None:
    both = [SERVER, {**SERVER, "url": "http://127.0.0.1:2"}]
    text = index(tmp_path, "serve", {**SERVER, "servers": both})
    assert "<dt>server 1</dt><dd>keye at http://127.0.0.1:1" in text
    assert "<dt>server 2</dt><dd>keye at http://127.0.0.1:2" in text
    assert "on ROCm0" in text


def test_records_of_the_first_keyelab_are_shown_too(tmp_path: Path) -> None:
    new = ("mode", "more", "clips")
    old = {name: value for name, value in VIDEO.items() if name not in new}
    assert "Asked about 2 frames" in index(tmp_path, "video_test", old)
