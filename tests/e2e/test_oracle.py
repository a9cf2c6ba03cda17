"""The demo model tells a healthy video path from a damaged one: every planted fault is caught."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import cv2
import numpy
import pytest
import requests
from llama import TILE_PX, running

from keyelab.facts import ServeFacts
from keyelab.params import VideoTest
from keyelab.video import chat, exam, frame, question, sample
from keyelab.video.asker import Asker
from keyelab.video.decode import take
from keyelab.video.demo import Film, Story, make_clip
from keyelab.video.probe import VideoInfo, probe
from keyelab.video.sample import Pick

pytestmark = pytest.mark.e2e
ONE_THREAD = ("-np", "1", "-t", "1")
_MESSAGE = "'<|im_start|>' + message.role + '\\n' + message.content"
_FOR, _ANSWER = "{%- for message in messages %}", "{%- endfor %}{{- '<|im_start|>assistant\\n' }}"
TEMPLATES = {
    "roles swapped": "{%- for message in messages %}{{- '<|im_start|>' + "
    "{'user': 'assistant', 'assistant': 'user'}.get(message.role, message.role) + '\\n' "
    "+ message.content + '<|im_end|>\\n' }}{%- endfor %}{{- '<|im_start|>user\\n' }}",
    "no end of a message": f"{_FOR}{{{{- {_MESSAGE} }}}}{_ANSWER}",
    "no start of the answer": f"{_FOR}{{{{- {_MESSAGE} + '<|im_end|>\\n' }}}}{{%- endfor %}}",
    "no roles": "{%- for message in messages %}{{- message.content }}{%- endfor %}",
}
STORIES = [
    Story(), Story("blue", "square", "up"), Story("yellow", "triangle", "left"),
    Story("green", "circle", "down", "white"), Story("white", "square", "still", "up"),
]  # fmt: skip


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServeFacts]:
    """A running llama-server with the demo model."""
    with running(tmp_path_factory.mktemp("server"), ONE_THREAD) as facts:
        yield facts


def told(server: ServeFacts, clip: Path, **over: Any) -> dict[str, Any]:
    """What the path of 07_video_test shows: two answers, and the tokens of the first prompt."""
    params = VideoTest(frame_size_px=96, max_tokens=64, more_prompts=[exam.COUNT], **over)
    frames = frame.sampled(probe(clip), params, tile_px=TILE_PX)[1]
    put = chat.asking(server, timeout_s=60, kept=clip.with_suffix(".jsonl"))
    bodies = question.requests_for(frames, params, "")
    caption, count = chat.ask_each(put, [one | {"cache_prompt": False} for one in bodies])
    return {"caption": caption.answer, "count": count.answer, "tokens": caption.prompt_tokens}


Plant = Callable[[pytest.MonkeyPatch], None]


def in_place_of(name: str, wrap: Callable[[Any], Any]) -> Plant:
    """Puts a damaged function where keyelab.video.frame calls the real one."""
    return lambda patch: patch.setattr(frame, name, wrap(getattr(frame, name)))


def taken(change: Callable[[list[Any]], list[Any]]) -> Plant:
    """Decoded pictures, damaged; each keeps its place and time."""

    def wrap(real: Any) -> Any:
        def damaged(*args: Any, **words: Any) -> list[Any]:
            picks, pictures = zip(*real(*args, **words), strict=True)
            return list(zip(picks, change(list(pictures)), strict=False))

        return damaged

    return in_place_of("take", wrap)


def framed(change: Callable[[Any], Any]) -> Plant:
    """Pictures changed where they get the size in which they are sent."""
    return in_place_of("square", lambda real: lambda rgb, side: change(real(rgb, side)))


def as_the_article(info: VideoInfo, **_: Any) -> list[Pick]:
    kept = sample.article(info.frames, info.frames / (info.duration_s or 1), 2, 10)
    return [Pick(info.stamps[i], i, None, float(info.times_s[i])) for i in kept]


LONG = Film(duration_s=9.5)  # 19 candidates at 2 a second
# what is planted, into what clip, and what the signals that catch it say (None: other than before)
FAULTS: dict[str, tuple[Plant, Story, Film, dict[str, Any]]] = {
    "red and blue swapped": (
        in_place_of("encode", lambda real: lambda rgb, *rest: real(rgb[..., ::-1].copy(), *rest)),
        Story(), Film(), {"caption": "a blue circle moves right"},
    ),
    "frames in reverse": (
        taken(lambda all: all[::-1]), Story(), Film(), {"caption": "a red circle moves left"}
    ),
    "every second frame dropped": (
        in_place_of("take", lambda real: lambda *args, **words: list(real(*args, **words))[::2]),
        Story(), Film(), {"count": "4", "tokens": None},
    ),
    "the last frame again and again": (
        taken(lambda all: all[-1:] * len(all)), Story(), Film(),
        {"caption": "a red circle stays still"},
    ),
    "first half only, as the article samples": (
        in_place_of("plan", lambda real: as_the_article),
        Story("red", "square", "right", "blue", at=0.9), LONG,
        {"caption": "a red square moves right"},
    ),
    "rotation lost": (
        taken(lambda all: [numpy.rot90(one) for one in all]), Story(), Film(),
        {"caption": "a red circle moves up"},
    ),
    "cropped to the left half": (
        framed(lambda rgb: rgb[:, :48]), Story(), Film(), {"caption": None, "tokens": None}
    ),
    "squeezed to 32 px wide": (
        framed(lambda rgb: cv2.resize(rgb, (32, 96))), Story(), Film(), {"tokens": None}
    ),
    "enlarged to 448 px": (
        framed(lambda rgb: cv2.resize(rgb, (448, 448))), Story(), Film(), {"tokens": None}
    ),
}  # fmt: skip


@pytest.mark.parametrize(("plant", "story", "film", "wrong"), FAULTS.values(), ids=FAULTS)
def test_a_planted_fault_changes_the_answer(
    tmp_path: Path,
    server: ServeFacts,
    monkeypatch: pytest.MonkeyPatch,
    plant: Plant,
    story: Story,
    film: Film,
    wrong: dict[str, Any],
) -> None:
    clip = make_clip(tmp_path / "clip.mp4", story, film)
    healthy = told(server, clip)
    assert healthy["caption"] == story.caption
    assert healthy["count"] == ("10" if film.duration_s > 5 else "8")
    plant(monkeypatch)
    faulty = told(server, clip)
    for signal, value in wrong.items():
        assert faulty[signal] != healthy[signal]
        assert value in (None, faulty[signal])


def test_frames_merged_in_pairs_are_half_as_many(tmp_path: Path, server: ServeFacts) -> None:
    """What b9631 to b10502 do without text between the frames; other servers count them all."""
    clip = make_clip(tmp_path / "clip.mp4", Story())
    healthy, bare = told(server, clip), told(server, clip, frame_text="")
    asker = Asker(server.url, tmp_path, "")
    assert (healthy["count"], bare["count"]) == ("8", "4" if asker.fuses else "8")
    assert bare["caption"] == healthy["caption"] == Story().caption
    assert asker.fuses or not asker.server.build_info.startswith("b10019-")


def templated(server: ServeFacts, folder: Path) -> tuple[str, str]:
    """How many of eight pictures are counted, and which number is repeated."""
    ask = Asker(server.url, folder)
    number = ask([], "The number is 4711.\nWhat is the number?")
    return ask(pictures_of(folder, Story()), exam.COUNT), number


@pytest.mark.parametrize("template", TEMPLATES.values(), ids=TEMPLATES)
def test_a_broken_chat_template_loses_the_number(
    tmp_path: Path, server: ServeFacts, template: str
) -> None:
    """Captions survive most of them, so learned are they; what must be repeated does not."""
    assert templated(server, tmp_path) == ("8", "4711")
    with running(tmp_path, (*ONE_THREAD, "--chat-template", template)) as broken:
        assert templated(broken, tmp_path)[1] != "4711"


@pytest.fixture
def ask(server: ServeFacts, tmp_path: Path) -> Asker:
    """Asks with the product's own labels."""
    return Asker(server.url, tmp_path, VideoTest().frame_text)


def pictures_of(folder: Path, story: Story, most: int = 8, film: Film | None = None) -> Any:
    info = probe(make_clip(folder / "clip.mp4", story, film))
    return list(take(info, sample.plan(info, fps=1000, max_frames=most)))


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.caption)
def test_any_jpeg_quality_from_40_to_95_tells_the_same(
    tmp_path: Path, ask: Asker, story: Story
) -> None:
    pictures = pictures_of(tmp_path, story)
    answers = {quality: ask(pictures, exam.CAPTION, quality) for quality in exam.QUALITIES}
    assert answers == dict.fromkeys(exam.QUALITIES, story.caption)


@pytest.mark.parametrize(("width", "height"), exam.SIZES)
def test_pictures_in_their_own_size_are_understood(
    tmp_path: Path, ask: Asker, width: int, height: int
) -> None:
    film = Film(width, height)
    answers = [ask(pictures_of(tmp_path, one, film=film), exam.CAPTION) for one in STORIES]
    assert answers == [one.caption for one in STORIES]


@pytest.mark.parametrize("count", range(1, 17))
def test_one_to_sixteen_frames_are_counted_and_described(
    tmp_path: Path, ask: Asker, count: int
) -> None:
    story = Story("blue", "triangle", "left")
    pictures = pictures_of(tmp_path, story, count)
    expected = story.caption if count > 1 else "a blue triangle"
    assert (ask(pictures, exam.CAPTION), ask(pictures, exam.COUNT)) == (expected, str(count))


def test_questions_in_chinese_are_answered(tmp_path: Path, ask: Asker) -> None:
    story = Story("green", "square", "up", "red")
    pictures = pictures_of(tmp_path, story, 10)
    answers = [ask(pictures, exam.CHINESE[name]) for name in ("caption", "colour", "shape")]
    assert answers == [story.caption, "green, then red", "square"]
    assert ask(pictures, "有几张图片？") == "10"


@pytest.mark.parametrize("prompt", [exam.CAPTION, *exam.CHINESE.values(), exam.COUNT])
def test_without_a_picture_it_says_that_there_is_none(ask: Asker, prompt: str) -> None:
    assert ask([], prompt) == "I see no video."


def test_the_same_request_gives_the_same_probabilities_to_the_last_digit(
    tmp_path: Path, server: ServeFacts
) -> None:
    params = VideoTest(max_tokens=64, temperature=0)
    pictures = pictures_of(tmp_path, Story("white", "circle", "still", "down"))
    frames = [frame.encode(rgb, pick, n, 90) for n, (pick, rgb) in enumerate(pictures, 1)]
    body = question.request(frames, params, "", params.prompt)
    body |= {"stream": False, "cache_prompt": False, "logprobs": True, "top_logprobs": 5}
    del body["stream_options"]
    url = f"{server.url}/v1/chat/completions"
    first, second = (requests.post(url, json=body, timeout=30).json()["choices"] for _ in "12")
    assert first == second
    assert len(first[0]["logprobs"]["content"]) > 5


def test_what_happens_late_is_told_only_when_the_whole_duration_is_sampled(
    tmp_path: Path, server: ServeFacts
) -> None:
    found = exam.sampling(server.url, tmp_path, clips=20)
    right = {name: (found.right[name], asked) for name, asked in found.asked.items()}
    assert right == {
        "event in the last tenth, sampled by time": (20, 20),
        "event in the last tenth, sampled as in the article": (0, 20),
        "one turn, sampled by time": (20, 20),
        "one turn, sampled as in the article": (0, 20),
    }
