"""Smaller copies of the demo model, made with llama-quantize, answer as the F16 files do."""

from __future__ import annotations

import random
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from llama import MODELS, find_server, running

from keyelab.models.header import read
from keyelab.video import exam, unseen
from keyelab.video.asker import Asker
from keyelab.video.demo import make_clip
from keyelab.video.probe import probe
from keyelab.video.unseen import Picture

pytestmark = pytest.mark.e2e
MODEL, PROJECTOR = MODELS / "keyelab-tiny-f16.gguf", MODELS / "mmproj-keyelab-tiny-f16.gguf"
CLIPS = 20
# its matrices have 128 columns: K-quants need 256 and fall back to other types
TYPES = {
    "Q8_0": {"Q8_0"},
    "Q5_0": {"Q5_0"},
    "Q4_0": {"Q4_0"},
    "MXFP4_MOE": {"MXFP4", "Q8_0"},
    "Q4_K_M": {"Q5_0", "Q8_0"},
    "Q2_K": {"Q4_0", "IQ4_NL"},
}
Clips = list[tuple[str, list[Picture]]]


@pytest.fixture(scope="module")
def clips(tmp_path_factory: pytest.TempPathFactory) -> Clips:
    """Unseen clips: the true caption and the pictures of each."""
    path, dice, found = tmp_path_factory.mktemp("clips") / "clip.mp4", random.Random(515), []
    for _ in range(CLIPS):
        most = dice.randint(2, 16)
        story = unseen.story(dice, most)
        info = probe(make_clip(path, story, unseen.film(dice)))
        found.append((story.caption, unseen.pictures(info, most)))
    return found


@pytest.fixture(scope="module")
def captions(clips: Clips, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., list[str]]:
    """The captions that a server with these files gives, one a clip."""

    def told(model: Path, projector: Path = PROJECTOR) -> list[str]:
        folder = tmp_path_factory.mktemp("server")
        words = ("-np", "1", "-t", "1", "-m", str(model), "--mmproj", str(projector))
        with running(folder, words) as server:
            ask = Asker(server.url, folder)
            return [ask(pictures, exam.CAPTION) for _, pictures in clips]

    return told


@pytest.fixture(scope="module")
def right(captions: Callable[..., list[str]]) -> list[str]:
    """What the packaged files answer."""
    return captions(MODEL)


def quantized(source: Path, target: Path, kind: str) -> subprocess.CompletedProcess[str]:
    program = find_server().with_name("llama-quantize")
    argv = [program, source, target, kind, "1"]
    return subprocess.run(argv, capture_output=True, text=True, timeout=60)


def test_the_packaged_files_answer_truly(clips: Clips, right: list[str]) -> None:
    assert right == [caption for caption, _ in clips]


@pytest.mark.parametrize("kind", TYPES)
def test_a_smaller_copy_answers_as_the_whole_one(
    kind: str, right: list[str], captions: Callable[..., list[str]], tmp_path: Path
) -> None:
    copy = tmp_path / f"{kind}.gguf"
    done = quantized(MODEL, copy, kind)
    assert done.returncode == 0, done.stderr
    assert copy.stat().st_size < 0.6 * MODEL.stat().st_size
    used = {tensor.type for tensor in read(copy).tensors if tensor.name.startswith("blk.")}
    assert used & TYPES[kind], used
    assert used <= TYPES[kind] | {"F32", "Q8_0"}, used
    same = sum(one == other for one, other in zip(captions(copy), right, strict=True))
    assert same >= CLIPS - 1


def test_the_projector_is_refused_in_words_or_answers_as_before(
    right: list[str], captions: Callable[..., list[str]], tmp_path: Path
) -> None:
    copy = tmp_path / "mmproj.gguf"
    done = quantized(PROJECTOR, copy, "Q8_0")
    if done.returncode:  # b10019
        assert "unsupported model architecture: 'clip'" in done.stdout + done.stderr
    else:  # b11434
        assert copy.stat().st_size < 0.7 * PROJECTOR.stat().st_size
        assert captions(MODEL, copy) == right
