"""An exam for the demo model: clips it has never seen, asked about through a real server.

Every clip is drawn by OpenCV, encoded as H.264 in MP4, sampled, and sent as JPEG, as any video
is. Training drew its pictures otherwise and never saw a video. What is counted:
answers that are word for word the truth, and answers that change as they must when frames are
reversed, dropped, or have red and blue exchanged.
"""

from __future__ import annotations

import base64
import random
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import requests

from keyelab.errors import KeyelabError
from keyelab.video import sample
from keyelab.video.decode import take
from keyelab.video.demo import COLOURS, MOTIONS, SHAPES, Film, Story, make_clip
from keyelab.video.frame import encode, square
from keyelab.video.probe import VideoInfo, probe

CAPTION = "What happens in these pictures?"
_OPPOSITE = {"right": "left", "left": "right", "up": "down", "down": "up", "still": "still"}
_SWAPPED = {"red": "blue", "blue": "red"}
LABELS = ("Frame {number}:", "")
SIZES = ((96, 96), (128, 128), (160, 120), (224, 126), (224, 224))


@dataclass
class Score:
    """How many answers were right of those asked for, by what was asked."""

    right: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    asked: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    wrong: list[dict[str, Any]] = field(default_factory=list)  # the first few, with answer

    def add(self, name: str, truth: str, answer: str, right: bool | None = None) -> None:
        good = answer == truth if right is None else right
        self.asked[name] += 1
        self.right[name] += good
        if not good and len(self.wrong) < 200:
            self.wrong.append({"asked": name, "expected": truth, "answer": answer})

    def rows(self) -> list[dict[str, Any]]:
        return [
            {
                "asked": name,
                "right": self.right[name],
                "of": count,
                "share": round(self.right[name] / count, 4),
            }
            for name, count in self.asked.items()
        ]


def take_exam(
    url: str,
    folder: Path,
    *,
    clips: int = 300,
    seed: int = 31337,
    frame_text: str = LABELS[0],
    on_progress: Callable[[float | None, str], None] = lambda share, text: None,
) -> Score:
    """Ask the server at `url` about that many clips, made in `folder`.

    Raises KeyelabError when the server cannot be reached or refuses a question.
    """
    score, dice = Score(), random.Random(seed)
    asking = _Asking(url, frame_text)
    for number in range(clips):
        most = 1 if number % 10 == 9 else dice.randint(2, 16)
        story = _story(dice, most)
        film = _film(dice, (96, 96))
        info = probe(make_clip(folder / "clip.mp4", story, film))
        quality = dice.randint(60, 95)
        frames = _pictures(info, most, quality)
        _about(score, asking, story, frames, quality)
        on_progress((number + 1) / clips, f"clip {number + 1} of {clips}")
    return score


def sizes(url: str, folder: Path, *, clips: int = 40, seed: int = 4242) -> Score:
    """Captions of clips of several sizes, sent in their own size."""
    score, dice = Score(), random.Random(seed)
    asking = _Asking(url, LABELS[0])
    for width, height in SIZES:
        for _ in range(clips):
            most = dice.randint(2, 10)
            story = _story(dice, most)
            info = probe(make_clip(folder / "clip.mp4", story, _film(dice, (width, height))))
            answer = asking(_pictures(info, most, 90, size_px=0), CAPTION)
            score.add(f"caption at {width} × {height} px", story.caption, answer)
    return score


def late(url: str, folder: Path, *, clips: int = 40, seed: int = 909) -> Score:
    """Clips with an event in the last tenth: all of the video sampled, and the article's way."""
    score, dice = Score(), random.Random(seed)
    asking = _Asking(url, LABELS[0])
    for _ in range(clips):
        story = _story(dice, 10, at=0.9, eventful=True)
        info = probe(make_clip(folder / "clip.mp4", story, _film(dice, (96, 96))))
        answer = asking(_pictures(info, 10, 90), CAPTION)
        score.add("late event, sampled by time", story.caption, answer)
        first = range(0, 19)[:10]  # the article: of 19 candidates the first ten
        picks = [
            sample.Pick(info.stamps[i * info.frames // 19], i * info.frames // 19) for i in first
        ]
        answer = asking(_pictures(info, 10, 90, picks=picks), CAPTION)
        score.add("late event, sampled as the article does", story.caption, answer)
    return score


def _story(dice: random.Random, frames: int, at: float = 0, eventful: bool = False) -> Story:
    colour, shape = dice.choice(list(COLOURS)), dice.choice(SHAPES)
    motion = dice.choice(list(MOTIONS))
    if not eventful and (frames < 5 or dice.random() < 0.6):
        return Story(colour, shape, motion)
    others = [one for one in COLOURS if one != colour]
    moves = [one for one in MOTIONS if one not in (motion, "still")]
    then = dice.choice([dice.choice(others), dice.choice(moves)])
    return Story(colour, shape, motion, then, at or dice.uniform(0.35, 0.65))


def _film(dice: random.Random, size: tuple[int, int]) -> Film:
    return Film(
        *size,
        rate=dice.choice([10, 12, 25, 30]),
        duration_s=dice.choice([2.0, 3.0, 4.0]),
        variable=dice.random() < 0.2,
        ground=dice.randint(0, 80),
        radius=dice.uniform(0.1, 0.16),
        travel=dice.uniform(0.4, 0.55),
        shift=(dice.uniform(-1, 1), dice.uniform(-1, 1)),
    )


def _pictures(
    info: VideoInfo,
    most: int,
    quality: int,
    *,
    size_px: int = 96,
    picks: Sequence[sample.Pick] | None = None,
) -> list[Any]:
    """RGB pictures as they are sent, before JPEG."""
    chosen = picks or sample.plan(info, fps=1000, max_frames=most)
    return [square(rgb, size_px) if size_px else rgb for _, rgb in take(info, chosen)]


def _about(score: Score, asking: _Asking, story: Story, frames: list[Any], quality: int) -> None:
    single = len(frames) == 1
    truth = f"a {story.colour} {story.shape}" if single else story.caption
    answer = asking(frames, CAPTION, quality)
    score.add("caption", truth, answer)
    told = answer.split()
    score.add("colour in the caption", story.colour, answer, story.colour in told[1:2])
    score.add("shape in the caption", story.shape, answer, story.shape in told[2:3])
    if not single:
        motion = truth.split(maxsplit=3)[3]
        score.add("motion in the caption", motion, answer, answer.split(maxsplit=3)[3:] == [motion])
    then_colour = f", then {story.then}" if story.then in COLOURS and not single else ""
    then_motion = f", then {story.then}" if story.then in MOTIONS else ""
    moves = "unknown" if single else story.motion + then_motion
    score.add("colour", story.colour + then_colour, asking(frames, "What colour is it?", quality))
    score.add("shape", story.shape, asking(frames, "它是什么形状？", quality))
    score.add("motion", moves, asking(frames, "Which way does it move?", quality))
    count = asking(frames, "How many pictures do you see?", quality)
    score.add("number of pictures", str(asking.blocks(len(frames))), count)
    if len(frames) > 3:
        fewer = asking(frames[::2], "How many pictures do you see?", quality)
        score.add("half of them dropped: another number", f"not {count}", fewer, fewer != count)
    if not single and not story.then and story.motion != "still":
        other = Story(story.colour, story.shape, _OPPOSITE[story.motion]).caption
        score.add("reversed: the opposite motion", other, asking(frames[::-1], CAPTION, quality))
    if story.colour in _SWAPPED and not story.then:
        other = truth.replace(story.colour, _SWAPPED[story.colour])
        swapped = [one[..., ::-1] for one in frames]
        score.add(
            "red and blue exchanged: the other colour", other, asking(swapped, CAPTION, quality)
        )
    score.add("off topic", "", *_refused(asking(frames, "What is the weather?", quality)))
    score.add("no video", "I see no video.", asking([], CAPTION, quality))


def _refused(answer: str) -> tuple[str, bool]:
    return answer, answer == "I can only describe the video."


@dataclass
class _Asking:
    """Asks one question with pictures, greedily, without the server's prompt cache."""

    url: str
    frame_text: str
    fuses: bool | None = None

    def __call__(self, frames: Sequence[Any], question: str, quality: int = 90) -> str:
        content: list[dict[str, Any]] = []
        for number, rgb in enumerate(frames, 1):
            if self.frame_text:
                content.append({"type": "text", "text": self.frame_text.format(number=number)})
            jpeg = encode(rgb, sample.Pick(None, number), number, quality).jpeg
            uri = "data:image/jpeg;base64," + base64.b64encode(jpeg).decode()
            content.append({"type": "image_url", "image_url": {"url": uri}})
        content.append({"type": "text", "text": question})
        return str(self._reply(content)["choices"][0]["message"]["content"])

    def blocks(self, frames: int) -> int:
        """How many pictures the model gets: half of them where the server joins pairs."""
        return -(-frames // 2) if self.joins() else frames

    def joins(self) -> bool:
        """Whether this server makes one block of two pictures without text between them."""
        if self.frame_text:
            return False
        if self.fuses is None:
            import numpy

            grey = numpy.full((96, 96, 3), 40, numpy.uint8)
            used = []
            for count in (1, 2):
                parts = [grey] * count
                jpeg = [encode(one, sample.Pick(None, 1), 1, 90).data_uri for one in parts]
                content = [{"type": "image_url", "image_url": {"url": one}} for one in jpeg]
                used.append(self._reply(content)["usage"]["prompt_tokens"])
            self.fuses = used[0] == used[1]
        return self.fuses

    def _reply(self, content: list[dict[str, Any]]) -> dict[str, Any]:
        body = {
            "messages": [{"role": "user", "content": content}],
            "temperature": 0,
            "max_tokens": 64,
            "cache_prompt": False,
        }
        try:
            reply = requests.post(f"{self.url}/v1/chat/completions", json=body, timeout=60)
        except requests.exceptions.RequestException as error:
            raise KeyelabError(
                f"expected an answer of {self.url}, found {type(error).__name__}",
                "start llama-server with the demo model there",
            ) from None
        if not reply.ok:
            raise KeyelabError(
                f"expected an answer of {self.url}, found {reply.status_code}: {reply.text[:200]}",
                "look at the server's log",
            )
        found: dict[str, Any] = reply.json()
        return found
