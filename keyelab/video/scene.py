"""Scenes: where the picture changes at once, found by PySceneDetect on small frames."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import partial

from keyelab.errors import KeyelabError
from keyelab.video import decode, tokens
from keyelab.video.probe import VideoInfo
from keyelab.video.sample import Pick

_PIXELS = 256 * 144  # about what PySceneDetect shrinks pictures to
_SHORTEST_S = 0.6  # its command line's shortest scene


def lengths(info: VideoInfo) -> list[float]:
    """How long each scene is, in order: seconds, or frames where times are unknown.

    Decodes the whole video. Raises KeyelabError without PySceneDetect.
    """
    try:
        from scenedetect import AdaptiveDetector, FrameTimecode
    except ImportError:
        raise KeyelabError(
            "video_test.sampling: expected PySceneDetect for 'scene', found it not installed",
            "pip install 'keyelab[scene]'",
        ) from None
    shortest = round(_SHORTEST_S * info.frames / info.duration_s) if info.duration_s else 1
    detector = AdaptiveDetector(min_scene_len=max(1, shortest))
    everything = [
        Pick(info.stamps[index] if info.stamps else None, index) for index in range(info.frames)
    ]
    cuts = [0]
    small = partial(tokens.fit, max_px=_PIXELS)
    for pick, rgb in decode.take(info, everything, fit=small):
        # frames are counted, so that a cut is a frame's index whatever the video's rate
        found = detector.process_frame(FrameTimecode(pick.index, 1.0), rgb[:, :, ::-1])
        cuts += [cut.frame_num for cut in found]
    if info.duration_s is None:
        stops = [float(cut) for cut in (*cuts, info.frames)]
    else:
        stops = [*info.times_s[cuts].tolist(), info.duration_s]
    return [later - earlier for earlier, later in itertools.pairwise(stops)]


def middles(scenes: Sequence[float], count: int) -> list[float]:
    """`count` times, ascending: the middles of the longest scenes, or of equal parts of each.

    With more frames than scenes every scene has one, and the one whose parts are longest is
    divided once more until there are enough.
    """
    longest = sorted(range(len(scenes)), key=lambda i: (-scenes[i], i))[:count]
    parts = dict.fromkeys(longest, 1)
    for _ in range(count - len(parts)):
        parts[max(parts, key=lambda i: (scenes[i] / parts[i], -i))] += 1
    starts = [0.0, *itertools.accumulate(scenes)]
    return [
        starts[i] + (part + 0.5) * scenes[i] / parts[i]
        for i in sorted(parts)
        for part in range(parts[i])
    ]
