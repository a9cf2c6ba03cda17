"""OpenCV as the other decoder: one frame after the other, held against the file's own times.

Its seeks are not exact (18 of 25 wrong on a variable rate, 4 of 25 in MPEG-TS), so none are made.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from keyelab.errors import KeyelabError
from keyelab.files import shown
from keyelab.video.probe import VideoInfo

_NEAR_S = 0.002  # OpenCV rounds times to milliseconds in some versions


def frames(info: VideoInfo, indices: Sequence[int]) -> Iterator[tuple[int, Any]]:
    """The frames of `indices`, ascending, each upright RGB (height × width × 3, uint8).

    Frames behind the last one that decodes are left out. Raises KeyelabError when OpenCV decodes
    nothing, as with AV1, or shows another time than the file has for a frame.
    """
    import cv2

    video = cv2.VideoCapture(f"file:{info.path.absolute()}", cv2.CAP_FFMPEG)
    try:
        video.set(cv2.CAP_PROP_ORIENTATION_AUTO, 1)  # the default differs between versions
        for index in range(indices[-1] + 1):
            if not video.grab():
                if not index:
                    raise _refusal(info, "none")
                return
            if index in indices:
                _same_time(info, index, video.get(cv2.CAP_PROP_POS_MSEC) / 1000)
                _, bgr = video.retrieve()
                yield index, cv2.cvtColor(bgr, cv2.COLOR_BGR2RGB)
    finally:
        video.release()


def _same_time(info: VideoInfo, index: int, found_s: float) -> None:
    if not info.stamps:
        return
    time_s = float(info.times_s[index])
    if abs(found_s - time_s) > _NEAR_S:
        raise _refusal(info, f"frame {index} at {found_s:.3f} s instead of {time_s:.3f} s")


def _refusal(info: VideoInfo, found: str) -> KeyelabError:
    return KeyelabError(
        f"expected OpenCV to decode the frames of {shown(info.path)} (codec {info.codec}), "
        f"found {found}",
        "keyelab run --set video_test.decoder=pyav",
    )
