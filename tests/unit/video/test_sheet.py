"""The contact sheet shows every frame in its own colours."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy
import pytest

from keyelab.video.frame import encode
from keyelab.video.sample import Pick
from keyelab.video.sheet import contact_sheet


@pytest.mark.parametrize("count", [1, 5, 8, 16, 64])
def test_every_frame_is_on_the_sheet(tmp_path: Path, count: int) -> None:
    red = numpy.full((96, 128, 3), (220, 20, 20), numpy.uint8)
    frames = [
        encode(red, Pick(i, i, None, None if i else 0.25), i + 1, jpeg_quality=95)
        for i in range(count)
    ]
    path = contact_sheet(frames, tmp_path / "演示 100%" / "-深 %03d.png")
    sheet = cv2.imdecode(numpy.frombuffer(path.read_bytes(), numpy.uint8), cv2.IMREAD_COLOR)
    reddish = ((sheet[..., 2] > 180) & (sheet[..., 0] < 80)).astype(numpy.uint8)
    found, _, stats, _ = cv2.connectedComponentsWithStats(reddish)
    assert found - 1 == count
    assert stats[1:, cv2.CC_STAT_AREA].min() > 5000
