"""A video's facts come from its packets; what cannot be used is named with a remedy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import av
import numpy
import pytest

from keyelab.errors import KeyelabError
from keyelab.video.decode import take
from keyelab.video.probe import VideoInfo, probe, rows, undecodable
from keyelab.video.sample import plan


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


def test_the_cover_of_a_song_is_no_video(tmp_path: Path) -> None:
    path = tmp_path / "song.m4a"
    with av.open(str(path), "w", format="mp4") as container:
        song = container.add_stream("aac", rate=8000, layout="mono")
        cover = container.add_stream("mjpeg", rate=1)
        cover.width, cover.height, cover.pix_fmt = 16, 16, "yuvj420p"
        cover.disposition = av.stream.Disposition.attached_pic.value
        sound = av.AudioFrame.from_ndarray(
            numpy.zeros((1, 1024), numpy.float32), format="fltp", layout="mono"
        )
        sound.sample_rate = 8000
        black = av.VideoFrame.from_ndarray(numpy.zeros((16, 16, 3), numpy.uint8), format="rgb24")
        container.mux([*song.encode(sound), *song.encode(), *cover.encode(black), *cover.encode()])
    with av.open(str(path)) as container:
        assert len(container.streams.video) == 1
    assert "expected a video stream" in refusal(path).message
    assert "found audio" in refusal(path).message


def test_a_cut_file_with_its_index_in_front_says_what_it_holds(make_video: Any) -> None:
    path = make_video(count=40, options={"movflags": "faststart"})
    content = path.read_bytes()
    path.write_bytes(content[: len(content) - (len(content) - content.index(b"mdat")) // 2])
    info = probe(path)
    assert info.stated_duration_s == pytest.approx(4.0, abs=0.1)
    assert 0 < info.frames < 40
    assert (info.duration_s or 0) < 3.5


def patched(path: Path, after: bytes, offset: int, content: bytes) -> Path:
    """Overwrites what stands `offset` bytes behind the end of `after`."""
    data = bytearray(path.read_bytes())
    start = data.index(after) + len(after) + offset
    data[start : start + len(content)] = content
    path.write_bytes(data)
    return path


def test_a_stated_rate_of_0_is_not_believed(make_video: Any, drawn: Any, read_number: Any) -> None:
    pictures = [drawn(i) for i in range(20)]
    path = make_video(
        "r.avi", codec="mjpeg", coding={"q": "2"}, pix_fmt="yuvj420p", pictures=pictures
    )
    patched(path, b"strh", 4 + 20, bytes(8))  # dwScale and dwRate
    patched(path, b"avih", 4, bytes(4))  # microseconds per frame
    info = probe(path)
    assert info.frames == 20
    numbers = [read_number(rgb) for _, rgb in take(info, plan(info, fps=1000, max_frames=4))]
    assert numbers == [2, 7, 12, 17]


@pytest.mark.parametrize("rate", [b"\x7f\xf8\0\0\0\0\0\0", bytes(8)], ids=["NaN", "0"])
def test_a_duration_that_is_no_number_is_not_believed(
    make_video: Any, drawn: Any, read_number: Any, rate: bytes
) -> None:
    path = make_video("n.mkv", pictures=[drawn(i) for i in range(20)])
    patched(path, b"\x44\x89\x88", 0, rate)  # Duration, a float of 8 bytes
    info = probe(path)
    assert info.stated_duration_s is None or info.stated_duration_s > 0
    assert info.duration_s == pytest.approx(2.0, abs=0.01)
    numbers = [read_number(rgb) for _, rgb in take(info, plan(info, fps=2, max_frames=9))]
    assert numbers == [2, 7, 12, 17]


def test_one_gif_picture_is_one_frame(make_video: Any, drawn: Any) -> None:
    info = probe(make_video("a.gif", codec="gif", pix_fmt="rgb8", coding={}, pictures=[drawn(1)]))
    assert info.frames == 1
    assert len(list(take(info, plan(info, fps=2, max_frames=9)))) == 1


def test_a_photo_is_a_video_of_one_frame(tmp_path: Path, drawn: Any, read_number: Any) -> None:
    path = tmp_path / "photo.jpg"
    path.write_bytes(jpeg(drawn(9)))
    info = probe(path)
    assert [read_number(rgb) for _, rgb in take(info, plan(info, fps=2, max_frames=9))] == [9]


def jpeg(picture: Any) -> bytes:
    import cv2

    return bytes(cv2.imencode(".jpg", picture)[1])


def test_a_text_file_in_the_clothes_of_a_playlist_reaches_nothing(tmp_path: Path) -> None:
    path = tmp_path / "list.m3u8"
    path.write_text("#EXTM3U\n#EXTINF:1,\nhttp://127.0.0.1:9/a.ts\n#EXT-X-ENDLIST\n")
    assert "expected" in refusal(path).message


def test_an_animated_webp_comes_with_a_command_that_can_read_it(
    make_video: Any, drawn: Any
) -> None:
    if "libwebp_anim" not in av.codecs_available:
        pytest.skip("this PyAV has no encoder libwebp_anim")
    pictures = [drawn(i) for i in range(4)]
    path = make_video("a.webp", codec="libwebp_anim", coding={"quality": "90"}, pictures=pictures)
    info = probe(path)
    assert not list(take(info, plan(info, fps=9, max_frames=9)))
    assert "magick" in undecodable(path, info.codec).hint
