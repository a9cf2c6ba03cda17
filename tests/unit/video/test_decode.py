"""Decoding against truth: each frame shows its number, read back from the JPEG that is sent."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import av
import cv2
import numpy
import pytest

from keyelab.errors import KeyelabError
from keyelab.video import decode, opencv
from keyelab.video.decode import runs, take
from keyelab.video.frame import encode
from keyelab.video.probe import VideoInfo, probe
from keyelab.video.sample import plan

COUNT, RATE = 50, 25
BURSTS = [i * 0.02 for i in range(20)] + [0.4 + i * 0.3 for i in range(10)]
BURSTS += [3.5 + i * 0.04 for i in range(20)]
X264, X265, VP9 = "libx264", "libx265", "libvpx-vp9"
MPEG4 = {"q": "2", "g": "12", "b": "200k"}


def x264(*words: str, gop: int = 12, bframes: int = 3) -> dict[str, str]:
    """The codec's options: `gop` frames from keyframe to keyframe, `bframes` between references."""
    fixed = ["scenecut=0", f"keyint={gop}", f"min-keyint={gop}", f"bframes={bframes}", *words]
    return {"crf": "20", "preset": "veryfast", "x264-params": ":".join(fixed)}


@dataclass(frozen=True)
class Clip:
    """How a clip is made, and whether OpenCV is expected to give the same frames."""

    name: str
    codec: str = X264
    coding: dict[str, str] = field(default_factory=x264)
    degrees: int = 0
    vfr: bool = False
    opencv: bool = True
    more: dict[str, Any] = field(default_factory=dict)


def of(name: str, *words: str, degrees: int = 0, vfr: bool = False, **given: Any) -> Clip:
    return Clip(name, coding=x264(*words, **given), degrees=degrees, vfr=vfr)


X265 = {"crf": "24", "preset": "ultrafast"}
CLIPS = [
    # H.264: keyframes far and near, B-frames none, few, many, as references, open GOP, refresh
    of("gop250.mp4", gop=250),
    of("gop250.mkv", gop=250),
    of("plain.mp4", bframes=0),
    of("b3.mp4"),
    of("b3.mkv"),
    of("b3.mov"),
    of("b3.ts"),
    Clip("b3.avi", opencv=False),  # AVI keeps no times for B-frames
    of("b3.flv"),
    of("b8.mp4", bframes=8),
    of("b8.ts", bframes=8),
    of("b-none.ts", bframes=0),
    of("pyramid.mp4", "b-pyramid=strict", bframes=5),
    of("open.mp4", "open-gop=1"),
    of("open.mkv", "open-gop=1"),
    of("open.ts", "open-gop=1"),
    of("refresh.mp4", "intra-refresh=1", bframes=0),
    of("refresh.ts", "intra-refresh=1", bframes=0),
    of("short.mp4", gop=3, bframes=2),
    of("intra.mp4", gop=1, bframes=0),
    of("slices.mp4", "slices=4"),
    of("slow.m2ts"),
    # variable rate
    of("vfr.mp4", vfr=True),
    of("vfr.mkv", vfr=True),
    of("vfr.mov", vfr=True, bframes=0),
    of("vfr-open.mp4", "open-gop=1", vfr=True),
    Clip("vfr.webm", VP9, {"crf": "20", "deadline": "realtime", "cpu-used": "8"}, vfr=True),
    # turned
    of("90.mp4", degrees=90),
    of("180.mp4", degrees=180),
    of("270.mp4", degrees=270),
    of("90.mov", degrees=90, bframes=0),
    of("vfr-90.mp4", degrees=90, vfr=True),
    Clip("hevc-270.mp4", "libx265", {**X265, "x265-params": "keyint=12:bframes=3"}, degrees=270),
    # other codecs
    Clip("hevc.mp4", "libx265", {**X265, "x265-params": "keyint=12:bframes=3:open-gop=0"}),
    Clip("hevc-open.mkv", "libx265", {**X265, "x265-params": "keyint=12:bframes=3:open-gop=1"}),
    Clip("hevc.ts", "libx265", {**X265, "x265-params": "keyint=12:bframes=2"}),
    Clip("vp9.webm", VP9, {"crf": "20", "g": "12", "deadline": "realtime", "cpu-used": "8"}),
    Clip("vp9-altref.mkv", VP9, {"crf": "20", "g": "12", "cpu-used": "8", "lag-in-frames": "16",
                                 "auto-alt-ref": "1", "deadline": "good"}),
    Clip("vp8.webm", "libvpx", {"crf": "10", "b": "2M", "g": "12", "deadline": "realtime"}),
    Clip("av1.mp4", "libsvtav1", {"preset": "9", "crf": "15", "g": "12"}, opencv=False),
    Clip("av1.webm", "libsvtav1", {"preset": "9", "crf": "15", "g": "12"}, opencv=False),
    Clip("mpeg4.mp4", "mpeg4", MPEG4),
    Clip("mpeg4.avi", "mpeg4", MPEG4),
    Clip("mpeg4-b.avi", "mpeg4", {**MPEG4, "bf": "2"}, opencv=False),
    Clip("mpeg4-b.mkv", "mpeg4", {**MPEG4, "bf": "2"}),
    Clip("mpeg2.ts", "mpeg2video", {"q": "2", "g": "12", "bf": "2", "b": "2M"}),
    Clip("mpeg2.mpg", "mpeg2video", {"q": "2", "g": "12", "bf": "2", "b": "2M"}),
    Clip("mjpeg.avi", "mjpeg", {"q": "2"}, more={"pix_fmt": "yuvj420p"}),
    Clip("mjpeg.mov", "mjpeg", {"q": "2"}, more={"pix_fmt": "yuvj420p"}),
    Clip("ffv1.mkv", "ffv1", {"g": "1"}),
    Clip("prores.mov", "prores", {}, more={"pix_fmt": "yuv422p10le"}),
    Clip("anim.gif", "gif", {}, more={"pix_fmt": "rgb8"}),
    Clip("anim.apng", "apng", {}, more={"pix_fmt": "rgb24"}),
    Clip("deep.mkv", X264, x264(), more={"pix_fmt": "yuv420p10le"}),
    Clip("wide-colours.mp4", X264, x264(), more={"pix_fmt": "yuv444p"}),
]  # fmt: skip


def made(clip: Clip, make_video: Any, drawn: Any, turned: Any) -> Path:
    if clip.codec not in av.codecs_available:
        pytest.skip(f"this PyAV has no encoder {clip.codec}")
    # stored turned, so that it is upright once turned as its matrix says
    shown = [numpy.rot90(drawn(i), clip.degrees // 90) for i in range(COUNT)]
    path: Path = make_video(
        clip.name, BURSTS if clip.vfr else None, rate=RATE, codec=clip.codec, coding=clip.coding,
        pictures=[numpy.ascontiguousarray(picture) for picture in shown], **clip.more,
    )  # fmt: skip
    if clip.degrees:
        turned(path, clip.degrees)
    return path


def sent(info: VideoInfo, picks: Any, read_number: Any, **how: Any) -> list[tuple[int, int]]:
    """(index that was asked for, number in the JPEG that would be sent) of each frame."""
    found = []
    for pick, rgb in take(info, picks, **how):
        jpeg = numpy.frombuffer(encode(rgb, pick, 1, 80).jpeg, numpy.uint8)
        found.append((pick.index, read_number(cv2.imdecode(jpeg, cv2.IMREAD_COLOR))))
    return found


@pytest.mark.parametrize("clip", CLIPS, ids=lambda clip: clip.name)
def test_every_way_of_decoding_gives_exactly_the_frame_of_each_time(
    clip: Clip, make_video: Any, drawn: Any, turned: Any, read_number: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    info = probe(made(clip, make_video, drawn, turned))
    assert (info.width, info.height, info.rotation_deg) == (160, 96, (360 - clip.degrees) % 360)
    assert info.frames == COUNT
    times = BURSTS if clip.vfr else [i / RATE for i in range(COUNT)]
    few = plan(info, fps=1000, max_frames=6)
    for pick in few:
        assert pick.time_s == pytest.approx(times[pick.index], abs=0.011)
        nearest = min(abs(time - (pick.requested_s or 0)) for time in times)
        assert abs((pick.time_s or 0) - (pick.requested_s or 0)) <= nearest + 0.012
    expected = [(index, index) for index in sorted({pick.index for pick in few})]
    slow: list[int] = []
    original = decode._the_slow_way
    monkeypatch.setattr(decode, "_the_slow_way", lambda *a: slow.append(1) or original(*a))
    for jump in (10**9, decode._JUMP_FRAMES, 0):  # seeks never, when cheaper, whenever it can
        assert not slow, "one pass and cheap seeks deliver everything"
        monkeypatch.setattr(decode, "_JUMP_FRAMES", jump)
        assert sent(info, few, read_number) == expected
    assert bool(slow) == (clip.name in LATE)
    small = sent(info, few, read_number, fit=lambda w, h: (w // 2, h // 2))
    assert small == expected
    every = plan(info, fps=1000, max_frames=COUNT, times_s=times)
    if not clip.vfr:
        assert plan(info, fps=1000, max_frames=COUNT)[-1].index == COUNT - 1
        assert len({pick.index for pick in plan(info, fps=1000, max_frames=COUNT)}) == COUNT
    assert sent(info, every, read_number) == [(i, i) for i in range(COUNT)]
    if clip.opencv:
        assert sent(info, few, read_number, decoder="opencv") == expected
    else:
        with pytest.raises(KeyelabError, match="expected OpenCV to decode"):
            sent(info, few, read_number, decoder="opencv")


# whose keyframes are no place to begin: a refresh over many frames, an index by bytes
LATE = {"refresh.mp4", "refresh.ts", "mpeg2.mpg"}


@pytest.fixture
def clip_of(make_video: Any, drawn: Any) -> Any:
    """Makes 50 numbered frames of H.264 with the given words for x264."""
    pictures = [drawn(i) for i in range(COUNT)]
    return lambda name="c.mp4", *words, **given: make_video(
        name, rate=RATE, coding=x264(*words, **given), pictures=pictures
    )


def test_jumps_are_made_where_they_save_frames_and_only_there(clip_of: Any) -> None:
    info = probe(clip_of(gop=20, bframes=2))
    stamp = dict(enumerate(info.stamps))
    assert [packet.is_key for packet in info.packets].index(True, 1) == 20

    def made_of(*indices: int) -> list[tuple[int | None, tuple[int, ...]]]:
        found = runs(info, [stamp[index] for index in indices])
        return [(run.key.stamp if run.key else None, run.stamps) for run in found]

    assert made_of(3, 45) == [(None, (stamp[3],)), (stamp[40], (stamp[45],))]
    assert made_of(15, 25) == [(None, (stamp[15], stamp[25]))], "five frames are not worth a jump"
    assert made_of(5, 10, 42, 48) == [
        (None, (stamp[5], stamp[10])),
        (stamp[40], (stamp[42], stamp[48])),
    ]
    assert made_of(45) == [(stamp[40], (stamp[45],))]


def test_few_frames_of_a_long_clip_are_had_without_decoding_it(
    clip_of: Any, monkeypatch: pytest.MonkeyPatch, read_number: Any
) -> None:
    info = probe(clip_of(gop=10))
    decoded: list[int] = []
    original = decode._decoded

    def counted(*args: Any, **words: Any) -> Any:
        for frame in original(*args, **words):
            decoded.append(frame.pts)
            yield frame

    monkeypatch.setattr(decode, "_decoded", counted)
    picks = plan(info, fps=1, max_frames=1, times_s=[1.85])
    assert sent(info, picks, read_number) == [(46, 46)]
    assert len(decoded) < 10


def test_what_a_jump_does_not_deliver_is_decoded_from_the_start(
    clip_of: Any, monkeypatch: pytest.MonkeyPatch, read_number: Any
) -> None:
    info = probe(clip_of("r.mp4", "intra-refresh=1", bframes=0))
    slow: list[int] = []
    original = decode._the_slow_way
    monkeypatch.setattr(
        decode, "_the_slow_way", lambda *a: (slow.append(len(a[1])), original(*a))[1]
    )
    picks = plan(info, fps=1, max_frames=1, times_s=[0.2, 1.46, 1.8])
    assert [number for _, number in sent(info, picks, read_number)] == [5, 36, 45]
    assert slow, "frames right behind a refresh are not whole"


def test_a_damaged_stretch_costs_its_own_frames_only(clip_of: Any, read_number: Any) -> None:
    path = clip_of("d.mkv", gop=10, bframes=0)
    content = bytearray(path.read_bytes())
    with av.open(str(path)) as container:
        spans = [(p.pos, p.size) for p in container.demux(video=0) if p.size]
    start, size = spans[20]  # a keyframe
    content[start + 12 : start + size] = b"\xff" * (size - 12)
    path.write_bytes(content)
    info = probe(path)
    picks = plan(info, fps=1, max_frames=1, times_s=[0.2, 0.88, 1.4, 1.8])
    numbers = [number for index, number in sent(info, [picks[0], *picks[2:]], read_number)]
    assert numbers == [5, 35, 45]


def test_a_size_is_kept_upright_and_asked_for_once_a_picture(
    make_video: Any, drawn: Any, turned: Any
) -> None:
    path = make_video(pictures=[drawn(i) for i in range(3)], coding=x264())
    turned(path, 90)
    info = probe(path)
    assert (info.width, info.height, info.rotation_deg) == (96, 160, 270)
    asked: list[tuple[int, int]] = []
    picks = plan(info, fps=100, max_frames=2)
    wanted = [rgb.shape for _, rgb in take(info, picks, fit=lambda *s: asked.append(s) or (24, 40))]
    assert wanted == [(40, 24, 3)] * 2
    assert asked == [(96, 160)] * 2


@pytest.mark.parametrize("decoder", ["pyav", "opencv"])
@pytest.mark.parametrize("name", ["100%done/演示 01.mp4", "clip_%03d.mp4", "-x.mp4", "a:b.mp4"])
def test_odd_names_are_only_names_to_both_decoders(
    make_video: Any, drawn: Any, read_number: Any, name: str, decoder: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    path = make_video(name, pictures=[drawn(i) for i in range(4)], coding=x264())
    monkeypatch.chdir(path.parent)
    info = probe(Path(path.name))
    assert len(sent(info, plan(info, fps=100, max_frames=4), read_number, decoder=decoder)) == 4


def test_opencv_that_shows_another_time_is_refused(
    clip_of: Any, monkeypatch: pytest.MonkeyPatch, read_number: Any
) -> None:
    info = probe(clip_of())
    monkeypatch.setattr(opencv, "_NEAR_S", -1.0)
    with pytest.raises(KeyelabError, match=r"found frame 25 at 1\.000 s") as caught:
        sent(info, plan(info, fps=1, max_frames=1), read_number, decoder="opencv")
    assert "video_test.decoder=pyav" in caught.value.hint


@pytest.mark.parametrize("decoder", ["pyav", "opencv"])
@pytest.mark.parametrize("name", ["raw.h264", "cut.mkv", "trimmed.mp4", "short.mp4"])
def test_what_is_odd_about_a_file_is_the_same_to_both_decoders(
    clip_of: Any, make_video: Any, drawn: Any, skip_frames: Any, read_number: Any,
    name: str, decoder: str,
) -> None:  # fmt: skip
    if name == "raw.h264":
        raw = [drawn(i) for i in range(COUNT)]
        path = make_video(name, coding=x264(), pictures=raw, kind="h264")
    elif name == "short.mp4":
        path = make_video(name, coding=x264(), pictures=[drawn(0)])
    else:
        path = clip_of(name)
    if name == "cut.mkv":
        path.write_bytes(path.read_bytes()[: path.stat().st_size * 6 // 10])
    first = 10 if name == "trimmed.mp4" else 0
    if first:
        skip_frames(path, first, rate=RATE)
    info = probe(path)
    assert (info.frames < COUNT) == (name != "raw.h264")
    picks = plan(info, fps=1000, max_frames=6)
    found = sent(info, picks, read_number, decoder=decoder)
    assert len(found) >= len({pick.index for pick in picks}) - 1, "the last of a cut file may fail"
    # a cut takes B-frames that are shown before the last frame: its time tells, not its index
    number = {p.index: p.index if p.time_s is None else round(p.time_s * RATE) for p in picks}
    assert found == [(index, number[index] + first) for index, _ in found]
