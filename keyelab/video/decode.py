"""The chosen frames of a video, exactly and with as little work as its keyframes allow.

The packets say where the keyframes are, so that it is known before decoding what a frame costs:
all that stands between it and the keyframe before it. The decoder jumps to that keyframe when more
than that lies between, and else goes on. Frames that no other frame needs are not decoded at all.
Each frame is known by its time stamp. What this fast way does not deliver is looked for again from
the start with everything decoded: some streams resume later than their index says.
"""

from __future__ import annotations

import contextlib
import itertools
from bisect import bisect_right
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from keyelab.video import folder, opencv
from keyelab.video.packets import Packet, opened, stream_of
from keyelab.video.probe import VideoInfo
from keyelab.video.sample import Pick

Fit = Callable[[int, int], tuple[int, int]]
# what a jump costs besides, in frames: the decoder's threads run empty and fill again
_JUMP_FRAMES = 8


@dataclass(frozen=True)
class Run:
    """Time stamps, ascending, that are decoded in one go, from `key` or from the start."""

    key: Packet | None
    stamps: tuple[int, ...]


def take(
    info: VideoInfo, picks: Sequence[Pick], *, fit: Fit | None = None, decoder: str = "pyav"
) -> Iterator[tuple[Pick, Any]]:
    """Each picked frame once, in order: upright RGB (height × width × 3, uint8).

    `fit` gives the size wanted of an upright (width, height), in px; None keeps it. Frames that
    cannot be decoded are passed over. Raises KeyelabError where OpenCV cannot give the same frames
    as PyAV, and for a file in a folder of pictures that is none.
    """
    chosen = {pick.index: pick for pick in reversed(picks)}
    if info.files:
        for index in sorted(chosen):
            yield chosen[index], _resized(folder.read(info.files[index]), fit)
    elif decoder == "opencv":
        for index, rgb in opencv.frames(info, sorted(chosen)):
            yield chosen[index], _resized(rgb, fit)
    elif info.stamps and info.stamped:
        by_stamp = {info.stamps[index]: pick for index, pick in chosen.items()}
        for frame in _by_stamp(info, sorted(by_stamp)):
            yield by_stamp[frame.pts], _upright(frame, fit)
    else:
        for index, frame in _by_count(info, max(chosen)):
            if index in chosen:
                yield chosen[index], _upright(frame, fit)


def runs(info: VideoInfo, stamps: Sequence[int]) -> list[Run]:
    """Where to jump so that the fewest frames are decoded; `stamps` ascending.

    A frame decodes from the last keyframe that is both shown and stored no later than it.
    """
    keys = sorted(
        (packet.stamp, packet)
        for packet in info.packets
        if packet.is_key and packet.stamp is not None
    )
    found: list[Run] = []
    reached = 0
    for stamp in stamps:
        place = info.places[stamp]
        last = bisect_right(keys, stamp, key=lambda item: item[0]) - 1
        while last > 0 and info.places[keys[last][0]] > place:
            last -= 1
        key = keys[last][1] if last >= 0 else None
        if key and info.places[key.stamp] - reached > _JUMP_FRAMES:
            found.append(Run(key, (stamp,)))
        elif found:
            found[-1] = Run(found[-1].key, (*found[-1].stamps, stamp))
        else:
            found.append(Run(None, (stamp,)))
        reached = max(reached, place)
    return found


def _by_stamp(info: VideoInfo, stamps: Sequence[int]) -> Iterator[Any]:
    """Frames by time stamp, ascending, the fast way as far as it delivers."""
    left = list(stamps[::-1])
    with _source(info) as container:
        for run in runs(info, stamps):
            packets = _from(container, info, run.key)
            for frame in _decoded(container, packets, only=set(run.stamps)):
                if frame.pts == left[-1]:
                    yield frame
                    left.pop()
                if not left or left[-1] > run.stamps[-1] or (frame.pts or 0) > left[-1]:
                    break
            if left and left[-1] <= run.stamps[-1]:
                break
    if left:
        yield from _the_slow_way(info, set(left))


def _the_slow_way(info: VideoInfo, stamps: set[int]) -> Iterator[Any]:
    with _source(info) as container:
        for frame in _decoded(container, _from(container, info)):
            if frame.pts in stamps:
                stamps.remove(frame.pts)
                yield frame
            if not stamps:
                return


def _by_count(info: VideoInfo, last: int) -> Iterator[tuple[int, Any]]:
    with _source(info) as container:
        yield from itertools.islice(
            enumerate(_decoded(container, _from(container, info))), last + 1
        )


@contextlib.contextmanager
def _source(info: VideoInfo) -> Iterator[Any]:
    with opened(info.path) as container:
        stream_of(container).thread_type = "AUTO"
        yield container


def _from(container: Any, info: VideoInfo, key: Packet | None = None) -> Iterator[Any]:
    """Packets from `key` on, or from the start; none when the file cannot be entered there."""
    import av

    stream = stream_of(container)
    if key is None:
        yield from _read(container.demux(stream))
        return
    # MP4 looks for the decoding time, Matroska for the time shown
    for goal in (key.stamp, key.dts):
        packets = iter(())
        if goal is not None:
            with contextlib.suppress(av.error.FFmpegError):
                container.seek(goal, stream=stream)
                packets = _read(container.demux(stream))
        first = next(packets, None)
        if first and info.places.get(first.pts, len(info.packets)) <= info.places[key.stamp]:
            yield from itertools.chain([first], packets)
            return


def _read(packets: Iterator[Any]) -> Iterator[Any]:
    """Packets up to the end, or up to where the file is cut or damaged."""
    import av

    with contextlib.suppress(av.error.FFmpegError):
        yield from packets


def _decoded(
    container: Any, packets: Iterable[Any], only: Container[int] | None = None
) -> Iterator[Any]:
    """Every frame that decodes, in the order they are shown.

    With `only`, frames with other time stamps are decoded when another frame needs them.
    """
    import av

    stream = stream_of(container)
    for packet in packets:
        if only is not None:
            # dav1d takes the word that it opens with, at a keyframe, for all that comes
            wanted = packet.is_keyframe or packet.pts is None or packet.pts in only
            stream.codec_context.skip_frame = "DEFAULT" if wanted else "NONREF"
        with contextlib.suppress(av.error.FFmpegError):
            yield from packet.decode()


def _upright(frame: Any, fit: Fit | None) -> Any:
    """RGB of a decoded frame, scaled and converted in one step, then turned."""
    import numpy

    turns = round(frame.rotation / 90) % 4
    words: dict[str, Any] = {}
    if fit:
        stored = (frame.width, frame.height)
        wanted = fit(*(stored[::-1] if turns % 2 else stored))
        width, height = wanted[::-1] if turns % 2 else wanted
        smaller = width * height < frame.width * frame.height
        words = {
            "width": width,
            "height": height,
            "interpolation": "AREA" if smaller else "BICUBIC",
        }
    return numpy.ascontiguousarray(numpy.rot90(frame.to_ndarray(format="rgb24", **words), turns))


def _resized(rgb: Any, fit: Fit | None) -> Any:
    import cv2

    height, width = rgb.shape[:2]
    wanted = fit(width, height) if fit else (width, height)
    if wanted == (width, height):
        return rgb
    smaller = wanted[0] * wanted[1] < width * height
    return cv2.resize(rgb, wanted, interpolation=cv2.INTER_AREA if smaller else cv2.INTER_CUBIC)
