"""A folder of pictures is a video without times."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import cv2
import pytest

from keyelab.errors import KeyelabError
from keyelab.video.decode import take
from keyelab.video.probe import probe, rows
from keyelab.video.sample import plan


def put(folder: Path, name: str, picture: Any) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(bytes(cv2.imencode(path.suffix, picture[:, :, ::-1])[1]))
    return path


def test_pictures_come_in_their_natural_order_and_other_files_do_not_count(
    tmp_path: Path, drawn: Any, read_number: Any
) -> None:
    for number in (1, 2, 3, 10, 11, 20, 100):
        put(tmp_path, f"Frame_{number}.png", drawn(number))
    put(tmp_path, ".hidden.png", drawn(200))
    (tmp_path / "notes.txt").write_text("no picture")
    put(tmp_path, "below/frame_5.png", drawn(5))
    info = probe(tmp_path)
    assert (info.frames, info.width, info.height, info.duration_s) == (7, 160, 96, None)
    picks = plan(info, fps=2.0, max_frames=99)
    assert [read_number(rgb) for _, rgb in take(info, picks)] == [1, 2, 3, 10, 11, 20, 100]
    assert {pick.time_s for pick in picks} == {None}
    three = plan(info, fps=2.0, max_frames=3)
    assert [read_number(rgb) for _, rgb in take(info, three)] == [2, 10, 20]
    assert {row["fact"]: row["value"] for row in rows(info)}["frames"] == 7


@pytest.mark.parametrize("suffix", [".jpg", ".JPEG", ".png", ".webp", ".bmp", ".tiff", ".ppm"])
def test_each_kind_of_picture_is_read_in_its_colours(tmp_path: Path, suffix: str) -> None:
    import numpy

    red = numpy.full((32, 48, 3), (220, 30, 20), numpy.uint8)
    path = put(tmp_path, f"演示 %d{suffix.lower()}", red)
    path.rename(path.with_suffix(suffix))
    info = probe(tmp_path)
    ((_, rgb),) = take(info, plan(info, fps=1.0, max_frames=1))
    assert abs(rgb.reshape(-1, 3).mean(axis=0) - (220, 30, 20)).max() < 12


def test_mixed_sizes_are_each_fitted_by_themselves(tmp_path: Path, drawn: Any) -> None:
    put(tmp_path, "1.png", drawn(1))
    put(tmp_path, "2.png", cv2.resize(drawn(2), (64, 128)))
    info = probe(tmp_path)
    picks = plan(info, fps=1.0, max_frames=2)
    shapes = [rgb.shape for _, rgb in take(info, picks, fit=lambda w, h: (w // 2, h // 2))]
    assert shapes == [(48, 80, 3), (64, 32, 3)]


@pytest.mark.parametrize("content", [b"", b"not a picture", b"\xff\xd8\xff\xe0 cut"])
def test_a_file_that_is_no_picture_is_named(tmp_path: Path, drawn: Any, content: bytes) -> None:
    for number in (1, 3):
        put(tmp_path, f"{number}.jpg", drawn(number))
    (tmp_path / "2.jpg").write_bytes(content)
    info = probe(tmp_path)
    with pytest.raises(KeyelabError, match=rf"2\.jpg, found {len(content)} bytes") as caught:
        list(take(info, plan(info, fps=1.0, max_frames=3)))
    assert "out of the folder" in caught.value.hint


def test_a_folder_without_pictures_says_what_is_in_it(tmp_path: Path) -> None:
    with pytest.raises(KeyelabError, match="found nothing"):
        probe(tmp_path)
    (tmp_path / "a.mp4").write_bytes(b"")
    with pytest.raises(KeyelabError, match=r"expected pictures .* found a\.mp4") as caught:
        probe(tmp_path)
    assert "video file" in caught.value.hint
