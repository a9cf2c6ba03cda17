"""Training for real, a few tiny steps on the CPU: repeatable, resumable, honest when it fails."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="training needs the extra: keyelab[train]")

import gguf  # noqa: E402
import numpy  # noqa: E402

from keyelab.errors import KeyelabError, UsageError  # noqa: E402
from keyelab.models.demo import checkpoint, convert, learn, render, train  # noqa: E402
from keyelab.models.demo.model import Model, Shape  # noqa: E402
from keyelab.models.fetch import PACKAGED  # noqa: E402

TINY = train.Settings(steps=6, tokens=500, parts=1, most_frames=3, longest=512)


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


def run(out: Path, settings: train.Settings = TINY, **how: Any) -> dict[str, Any]:
    return checkpoint.load(train.train(out, settings, device="cpu", **how))


def same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return all(torch.equal(one["model"][name], other["model"][name]) for name in one["model"])


def stop_at(step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Be interrupted there, just after a checkpoint."""
    learn_step = train._Run.learn

    def interrupted(self: Any, *given: Any) -> Any:
        if self.step == step:
            self.save()
            raise KeyboardInterrupt
        return learn_step(self, *given)

    monkeypatch.setattr(train._Run, "learn", interrupted)


def test_a_seed_gives_the_same_weights_and_an_interrupted_run_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    straight = run(tmp_path / "straight")
    assert same(straight, run(tmp_path / "again"))
    assert not same(straight, run(tmp_path / "other", dataclasses.replace(TINY, seed=2)))
    with monkeypatch.context() as patched:
        stop_at(3, patched)
        with pytest.raises(KeyboardInterrupt):
            run(tmp_path / "stopped")
    assert checkpoint.load(tmp_path / "stopped" / "checkpoint.pt")["step"] == 3
    resumed = run(tmp_path / "stopped")
    assert same(straight, resumed)
    assert resumed["dialogues"] == straight["dialogues"] > 0


def test_a_finished_run_is_not_trained_again(tmp_path: Path) -> None:
    first = run(tmp_path)
    assert same(first, run(tmp_path))


def test_a_folder_with_a_run_of_other_settings_is_refused(tmp_path: Path) -> None:
    run(tmp_path)
    with pytest.raises(KeyelabError, match="expected a checkpoint with steps 9") as caught:
        run(tmp_path, dataclasses.replace(TINY, steps=9))
    assert "--out" in caught.value.hint


def test_a_broken_checkpoint_is_named(tmp_path: Path) -> None:
    (tmp_path / "checkpoint.pt").write_bytes(b"nothing")
    with pytest.raises(KeyelabError, match=r"found \w+ in .*checkpoint\.pt"):
        run(tmp_path)


def test_training_goes_on_from_given_weights(tmp_path: Path) -> None:
    first = run(tmp_path / "one")
    still = dataclasses.replace(TINY, seed=2, steps=1, peak=0.0)
    second = run(tmp_path / "two", still, start=tmp_path / "one" / "weights.pt")
    assert same(first, second)


def test_weights_that_are_no_numbers_are_never_written(tmp_path: Path) -> None:
    wild = dataclasses.replace(TINY, peak=1e30)
    with pytest.raises(KeyelabError, match=r"expected finite weights, found none at step 6") as got:
        run(tmp_path, wild)
    assert "--peak 5e+29" in got.value.hint
    assert not (tmp_path / "weights.pt").exists()
    assert not (tmp_path / "checkpoint.pt").exists()


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_gpu_that_is_not_there_is_told_in_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert train.main(["--out", str(tmp_path), "--device", "cuda"]) == 1
    assert "expected a GPU for device cuda, found none" in capsys.readouterr().err
    with pytest.raises(UsageError, match="expected auto, cpu or cuda, found 'tpu'"):
        train.train(tmp_path, TINY, device="tpu")


def test_an_old_torch_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "__version__", "2.3.1+cpu")
    with pytest.raises(KeyelabError, match=r"expected torch 2\.4 or later.* found 2\.3\.1\+cpu"):
        train.train(tmp_path, TINY)


def test_the_end_by_the_clock_is_kept(tmp_path: Path) -> None:
    found = run(tmp_path, dataclasses.replace(TINY, steps=100_000), minutes=0.05)
    assert 0 < found["step"] < 100_000


def test_the_log_has_a_row_for_fifty_steps(tmp_path: Path) -> None:
    run(tmp_path, dataclasses.replace(TINY, steps=100, tokens=300, most_frames=2))
    rows = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert [row["step"] for row in rows] == [50, 100]
    assert rows[1]["answers"] < rows[0]["answers"]


def test_conversion_writes_the_tensors_of_the_packaged_files_with_these_weights(
    tmp_path: Path,
) -> None:
    found = run(tmp_path / "run", dataclasses.replace(TINY, steps=1))
    pair = convert.convert(tmp_path / "run" / "weights.pt", tmp_path / "gguf")
    for path, half in zip(pair, ("language.", "vision."), strict=True):
        ours, packaged = gguf.GGUFReader(path), gguf.GGUFReader(PACKAGED / path.name)
        assert {name: field.contents() for name, field in ours.fields.items()} == {
            name: field.contents() for name, field in packaged.fields.items()
        }
        assert [(one.name, one.tensor_type, one.shape.tolist()) for one in ours.tensors] == [
            (one.name, one.tensor_type, one.shape.tolist()) for one in packaged.tensors
        ]
        for tensor in ours.tensors:
            name = half + tensor.name.replace("weight.1", "weight_1")
            weights = found["model"][name].numpy()
            assert numpy.array_equal(tensor.data, weights.astype(tensor.data.dtype)), name


def test_jpeg_in_torch_is_that_of_libjpeg() -> None:
    import cv2

    ramp = numpy.add.outer(numpy.arange(96), numpy.arange(96)).astype("uint8")
    picture = numpy.stack([ramp, ramp[::-1], numpy.full_like(ramp, 90)], 2)
    cv2.circle(picture, (40, 50), 14, (45, 70, 225), -1)
    for quality in (55, 75, 95):
        flags = [cv2.IMWRITE_JPEG_QUALITY, quality]
        theirs = cv2.imdecode(cv2.imencode(".jpg", picture[..., ::-1], flags)[1], 1)[..., ::-1]
        sent = torch.from_numpy(picture.copy()).permute(2, 0, 1)[None].float()
        ours = render.jpeg(sent, torch.tensor([float(quality)]))[0].permute(1, 2, 0).numpy()
        lost = numpy.abs(theirs.astype(float) - picture).mean()
        assert numpy.abs(ours - theirs).mean() < 0.35 * lost + 0.3


def test_what_is_padded_at_the_end_changes_nothing_before_it() -> None:
    torch.manual_seed(0)
    model = Model(Shape())
    tokens = torch.randint(0, 640, (1, 12))
    places = torch.zeros(0, dtype=torch.long)
    positions = torch.arange(12).expand(3, 1, 12)
    longer = torch.cat([tokens, torch.zeros(1, 8, dtype=torch.long)], 1)
    with torch.no_grad():
        one = model.hidden(tokens, positions, torch.zeros(0, 1, 128), places)
        other = model.hidden(
            longer, torch.arange(20).expand(3, 1, 20), torch.zeros(0, 1, 128), places
        )
    assert torch.allclose(one, other[:, :12], atol=1e-5)


def test_an_answer_counts_only_when_all_of_it_is_right() -> None:
    from keyelab.models.demo import data, tokenizer

    steps = data.Steps(tokenizer.build(), 1, 500, 1, 3, 512, fixed={"kind": "clips"})
    (part,) = steps[0]
    wanted = torch.from_numpy(part.dialogues.wanted)
    tally = learn.Tally()
    tally.add(part, wanted)
    assert set(tally.shares().values()) == {1.0}
    wrong = wanted.clone()
    wrong[0] += 1
    tally = learn.Tally()
    tally.add(part, wrong)
    assert sum(tally.right.values()) == sum(tally.given.values()) - 1


def test_transformers_reads_the_packaged_weights_and_answers_truly() -> None:
    pytest.importorskip("transformers", reason="the comparison needs the extra: keyelab[train]")
    from keyelab.models.demo import agree, hugging

    other = hugging.load(*(PACKAGED / name for name in agree.NAMES))
    rng = numpy.random.default_rng(4)
    for number in range(5):
        parts, truth = agree._message(rng, (96, 96), number)
        answer, tokens = other.answer(parts)
        assert answer == truth
        pictures = sum(isinstance(part, bytes) for part in parts)
        assert tokens > pictures * 9
