"""Times from packets alone."""

from __future__ import annotations

from typing import Any

import pytest

from keyelab.video.packets import clock, stamped
from keyelab.video.probe import probe


@pytest.mark.parametrize(
    "packets",
    [[], [(0, 1), (None, 1), (2, 1)], [(0, 1), (0, 1)], [(0, None)], [(0, 0)]],
)
def test_clock_is_unknown_when_stamps_are_missing_equal_or_alone(packets: list[Any]) -> None:
    assert clock(packets) == ((), 0.0)


def test_clock_takes_b_frames_in_any_order_and_a_late_start() -> None:
    assert clock([(50, None), (53, None), (51, None), (52, None)]) == ((50, 51, 52, 53), 4.0)
    assert clock([(50, 1), (51, 7)]) == ((50, 51), 8.0)
    assert clock([(9, 4)]) == ((9,), 4.0)


def test_last_of_uneven_b_frames_stands_as_long_as_most_frames_do(make_video: Any) -> None:
    times = [0, 0.2, 0.4, 0.6, 0.8, 1.0, 1.2, 1.4, 2.2, 2.4, 2.6, 2.8]
    coding = {"x264-params": "bframes=3:b-adapt=0"}
    info = probe(make_video("uneven.mp4", times, coding=coding))
    assert [packet.stamp for packet in info.packets] != sorted(info.stamps), "there are B-frames"
    assert info.duration_s == pytest.approx(3.0, abs=0.01), "its packet says 0.8 s"


def test_frames_of_an_avi_with_b_frames_carry_other_times_than_their_own(make_video: Any) -> None:
    coding = {"x264-params": "bframes=3"}
    avi, mp4 = (probe(make_video(name, coding=coding)) for name in ("a.avi", "a.mp4"))
    assert (avi.stamped, mp4.stamped) == (False, True)
    assert avi.duration_s == pytest.approx(2.0, abs=0.01)
    assert stamped(mp4.path, mp4.packets)
