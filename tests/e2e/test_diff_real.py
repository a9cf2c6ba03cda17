"""keyelab diff on real runs: fewer frames explain fewer tokens, and a failure has its cause."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from homes import latest, make_home, run_keyelab

pytestmark = [pytest.mark.source, pytest.mark.e2e]


@pytest.fixture(scope="module")
def home(demo_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout with that run and two more: one with 4 frames, and one that fails at 06_serve."""
    home = make_home(tmp_path_factory.mktemp("diff"))
    shutil.copytree(demo_run, home / "records" / "cpu-demo" / demo_run.name)
    (home / "records" / "cpu-demo" / "LATEST").write_text(demo_run.name + "\n")
    for setting, code in (("video_test.max_frames=4", 0), ("serve.context_tokens=128", 1)):
        words = ("--from", "serve", "--to", "video_test", "--set", setting)
        done = run_keyelab(home, "run", "--target", "cpu-demo", *words)
        assert done.returncode == code, done.stdout
    return home


def compared(home: Path, *words: str) -> dict[str, Any]:
    done = run_keyelab(home, "diff", *words, "--json")
    assert done.returncode == 1, done.stdout
    content: dict[str, Any] = json.loads(done.stdout)
    return content


def test_fewer_frames_are_the_cause_of_fewer_tokens(home: Path, demo_run: Path) -> None:
    fewer = sorted((home / "records" / "cpu-demo").glob("*/run.json"))[1].parent
    page = home / "page.html"
    content = compared(home, demo_run.name, fewer.name, "--html", str(page))
    assert content["explained"] is None
    frames = next(one for one in content["causes"] if one["name"] == "video_test.max_frames")
    assert [one["key"] for one in frames["follows"]] == ["video.frames"]
    (prompt,) = [one for one in content["numbers"] if one["name"] == "prompt"]
    assert prompt["b"] < prompt["a"]
    assert prompt["matters"]
    assert {"model", "host", "source", "patches", "build"} <= set(content["equal"])
    assert [content[side]["doubts"] for side in "ab"] == [[], []]
    text = page.read_text()
    assert text.count('alt="frames of') == 2
    assert "<script" not in text


def test_a_failure_is_explained_by_the_parameter_that_was_changed(home: Path) -> None:
    content = compared(home, "cpu-demo")
    assert content["b"]["run_id"] == latest(home).name
    assert content["explained"] == "serve"
    assert [one["key"] for one in content["causes"]] == ["parameters.serve.context_tokens"]
    assert "steps of 256" in content["failures"]["b"]["message"]


def test_a_run_does_not_differ_from_itself(home: Path, demo_run: Path) -> None:
    done = run_keyelab(home, "diff", demo_run.name, demo_run.name)
    assert done.returncode == 0, done.stdout
    assert "nothing that was recorded differs" in done.stdout
