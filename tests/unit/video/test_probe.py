"""A video's facts come from its packets; what cannot be used is named with a remedy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import av
import numpy
import pytest

from keyelab.errors import KeyelabError
from keyelab.video.probe import VideoInfo, clock, probe, rows


def test_constant_rate_file_is_read_exactly(make_video: Any) -> None:
    info = probe(make_video(count=20, rate=10))
    assert (info.frames, info.codec, info.width, info.height) == (20, "h264", 96, 64)
    assert info.duration_s == pytest.approx(2.0, abs=0.001)
    assert value(info, "frames per second") == "10.00, constant"


def value(info: VideoInfo, fact: str) -> Any:
    return next(row["value"] for row in rows(info) if row["fact"] == fact)


def test_variable_rate_is_noticed_and_the_duration_is_true(make_video: Any) -> None:
    times = [i * 0.05 for i in range(20)] + [1.0 + i * 0.5 for i in range(10)]
    info = probe(make_video(times=times))
    assert info.frames == 30
    assert "variable" in value(info, "frames per second")
    assert 5.4 <= (info.duration_s or 0) <= 6.1


def test_raw_stream_without_time_stamps_has_unknown_times(make_video: Any) -> None:
    info = probe(make_video("raw.h264", count=20, kind="h264"))
    assert (info.frames, info.duration_s) == (20, None)
    assert value(info, "duration (s)") is None
    assert value(info, "frames per second") is None


@pytest.mark.parametrize("codec", ["libsvtav1", "libx265", "libvpx-vp9", "mpeg4"])
def test_codecs_are_judged_by_decoding_not_by_name(make_video: Any, codec: str) -> None:
    if codec not in av.codecs_available:
        pytest.skip(f"this PyAV has no encoder {codec}")
    assert probe(make_video("clip.mkv", codec=codec, count=6)).frames == 6


@pytest.mark.parametrize(
    "name",
    ["100%done/演示-视频 01.mp4", "clip_%03d.mp4", "-x.mp4", "a:b.mp4", "it's #1?.mp4"],
)
def test_odd_names_are_only_names(
    make_video: Any, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = make_video(name, count=4)
    monkeypatch.chdir(path.parent)
    assert probe(Path(path.name)).frames == 4


def refusal(path: Path) -> KeyelabError:
    with pytest.raises(KeyelabError) as caught:
        probe(path)
    assert caught.value.hint
    assert "\n" not in caught.value.message
    return caught.value


def test_each_file_that_is_no_video_gets_its_own_sentence(tmp_path: Path, make_video: Any) -> None:
    good = make_video().read_bytes()
    cases = {
        "empty.mp4": (b"", "found 0 bytes"),
        "lfs.mp4": (
            b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 12\n",
            "Git LFS pointer",
        ),
        "page.mp4": (b"<!DOCTYPE html><html>404</html>", "a web page"),
        "cut.mp4": (good[: len(good) // 2], "index (moov)"),
        "notes.mp4": (b"just some text, no video at all " * 20, "FFmpeg cannot read"),
    }
    for name, (content, said) in cases.items():
        path = tmp_path / name
        path.write_bytes(content)
        assert said in refusal(path).message
    assert "found no file there" in refusal(tmp_path / "missing.mp4").message
    assert "found no file there" in refusal(tmp_path).message


def test_a_codec_that_cannot_be_decoded_comes_with_the_convert_command(make_video: Any) -> None:
    path = make_video("-odd name.mp4")
    path.write_bytes(path.read_bytes().replace(b"avc1", b"zzzz").replace(b"avcC", b"zzzC"))
    error = refusal(path)
    assert "to decode" in error.message
    assert "-c:v libx264" in error.hint


def test_sound_alone_is_named(tmp_path: Path) -> None:
    path = tmp_path / "sound.wav"
    with av.open(str(path), "w") as container:
        stream = container.add_stream("pcm_s16le", rate=8000, layout="mono")
        sound = av.AudioFrame.from_ndarray(numpy.zeros((1, 800), numpy.int16), layout="mono")
        sound.sample_rate = 8000
        container.mux(stream.encode(sound))
        container.mux(stream.encode())
    assert "expected a video stream" in refusal(path).message
    assert "audio" in refusal(path).message


def test_a_cut_file_with_its_index_in_front_says_what_it_holds(make_video: Any) -> None:
    path = make_video(count=40, options={"movflags": "faststart"})
    content = path.read_bytes()
    path.write_bytes(content[: len(content) - (len(content) - content.index(b"mdat")) // 2])
    info = probe(path)
    assert info.stated_duration_s == pytest.approx(4.0, abs=0.1)
    assert 0 < info.frames < 40
    assert (info.duration_s or 0) < 3.5


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
