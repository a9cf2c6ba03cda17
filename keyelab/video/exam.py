"""An exam for the demo model, through a real server: python -m keyelab.video.exam URL

Every clip is drawn by OpenCV, encoded as H.264 in MP4, sampled, and sent as JPEG, as any video
is. What is counted: answers that are word for word the truth, and answers that change as they
must when frames are reversed, dropped, or have red and blue exchanged.
"""

from __future__ import annotations

import datetime
import random
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import click

from keyelab.errors import KeyelabError
from keyelab.files import sha256_file, write_json
from keyelab.params import VideoTest
from keyelab.video import sample, unseen
from keyelab.video.asker import Asker
from keyelab.video.demo import COLOURS, MOTIONS, Film, Story, make_clip
from keyelab.video.probe import VideoInfo, probe
from keyelab.video.tally import Tally
from keyelab.video.unseen import Picture

Progress = Callable[[float | None, str], None]
CAPTION, COUNT = "What happens in these pictures?", "How many pictures do you see?"
CHINESE = {
    "caption": "这个视频里发生了什么？",
    "colour": "它是什么颜色？",
    "shape": "它是什么形状？",
}
LABELS = ("Frame {number}:", VideoTest().frame_text, "")
SIZES = ((96, 96), (128, 128), (160, 120), (224, 126), (224, 224))
QUALITIES = (40, 50, 60, 70, 80, 90, 95)
_OPPOSITE = {"right": "left", "left": "right", "up": "down", "down": "up"}
_SWAPPED = {"red": "blue", "blue": "red"}


def take_exam(
    url: str,
    folder: Path,
    *,
    clips: int = 300,
    seed: int = 31337,
    frame_text: str = LABELS[0],
    on_progress: Progress = lambda share, text: None,
) -> Tally:
    """Ask the server at `url` about that many clips of 1 to 16 frames, made in `folder`.

    Raises KeyelabError when the server cannot be reached or refuses a question.
    """
    tally, dice, ask = Tally(), random.Random(seed), Asker(url, folder, frame_text)
    for number in range(clips):
        most = 1 if number % 10 == 9 else dice.randint(2, 16)
        story = unseen.story(dice, most)
        info = probe(make_clip(folder / "clip.mp4", story, unseen.film(dice)))
        _about(tally, ask, story, unseen.pictures(info, most), dice.randint(60, 95))
        on_progress((number + 1) / clips, f"clip {number + 1} of {clips}")
    return tally


def sizes(url: str, folder: Path, *, clips: int = 40, seed: int = 4242) -> Tally:
    """Captions of clips of several sizes, sent in their own size."""
    tally, dice, ask = Tally(), random.Random(seed), Asker(url, folder)
    for width, height in SIZES:
        for _ in range(clips):
            most = dice.randint(2, 10)
            story, film = unseen.story(dice, most), unseen.film(dice, width, height)
            info = probe(make_clip(folder / "clip.mp4", story, film))
            answer = ask(unseen.pictures(info, most, side_px=0), CAPTION)
            tally.add(f"caption at {width} × {height} px", story.caption, answer)
    return tally


def qualities(url: str, folder: Path, *, clips: int = 40, seed: int = 777) -> Tally:
    """Captions of the same clips, their frames stored at several JPEG qualities."""
    tally, dice, ask = Tally(), random.Random(seed), Asker(url, folder)
    for _ in range(clips):
        most = dice.randint(2, 10)
        story = unseen.story(dice, most)
        info = probe(make_clip(folder / "clip.mp4", story, unseen.film(dice)))
        pictures = unseen.pictures(info, most)
        for quality in QUALITIES:
            answer = ask(pictures, CAPTION, quality)
            tally.add(f"caption at JPEG quality {quality}", story.caption, answer)
    return tally


def sampling(url: str, folder: Path, *, clips: int = 40, seed: int = 909) -> Tally:
    """Clips that only the whole duration explains, at most 10 frames of 2 a second, as article.

    9.5 s give 19 candidates, of which the article's program keeps the first ten.
    """
    tally, dice, ask = Tally(), random.Random(seed), Asker(url, folder)
    for name, draw in (("event in the last tenth", unseen.late), ("one turn", unseen.turning)):
        for _ in range(clips):
            story, film = draw(dice), long_film(dice)
            info = probe(make_clip(folder / "clip.mp4", story, film))
            for how, picks in samplers(info, film).items():
                answer = ask(unseen.pictures(info, 10, picks=picks), CAPTION)
                tally.add(f"{name}, {how}", story.caption, answer)
    return tally


def long_film(dice: random.Random) -> Film:
    """A clip of 9.5 s at a rate of which 2 a second are 19 candidates."""
    return Film(
        rate=dice.choice([10, 12, 24, 30]),
        duration_s=9.5,
        ground=dice.randint(0, 80),
        shift=(dice.uniform(-1, 1), dice.uniform(-1, 1)),
    )


def samplers(info: VideoInfo, film: Film) -> dict[str, list[sample.Pick]]:
    """What keyelab and the article's program take of a clip with the article's parameters."""
    kept = sample.article(info.frames, film.rate, fps=2, max_frames=10)
    times_s = info.times_s
    return {
        "sampled by time": sample.plan(info, fps=2, max_frames=10),
        "sampled as in the article": [
            sample.Pick(info.stamps[i], i, None, round(float(times_s[i]), 3)) for i in kept
        ],
    }


def _about(
    tally: Tally, ask: Asker, story: Story, pictures: Sequence[Picture], quality: int
) -> None:
    single, then = len(pictures) == 1, "" if len(pictures) == 1 else story.then
    truth = f"a {story.colour} {story.shape}" if single else story.caption
    answer = ask(pictures, CAPTION, quality)
    words = answer.split(maxsplit=3)
    tally.add("caption", truth, answer)
    tally.add("colour in the caption", story.colour, answer, words[1:2] == [story.colour])
    tally.add("shape in the caption", story.shape, answer, words[2:3] == [story.shape])
    if not single:
        motion = truth.split(maxsplit=3)[3]
        tally.add("motion in the caption", motion, answer, words[3:] == [motion])
    tally.add("caption, asked in Chinese", truth, ask(pictures, CHINESE["caption"], quality))
    colour = story.colour + (f", then {then}" if then in COLOURS else "")
    motion = "unknown" if single else story.motion + (f", then {then}" if then in MOTIONS else "")
    for name, asked, expected in (
        ("colour", "What colour is it?", colour),
        ("colour, asked in Chinese", CHINESE["colour"], colour),
        ("shape", "What shape is it?", story.shape),
        ("shape, asked in Chinese", CHINESE["shape"], story.shape),
        ("motion", "Which way does it move?", motion),
        ("number of pictures", COUNT, str(ask.pictures_seen(len(pictures)))),
        ("off topic", "What is the weather?", "I can only describe the video."),
    ):
        tally.add(name, expected, ask(pictures, asked, quality))
    tally.add("no video", "I see no video.", ask([], CAPTION))
    _about_faults(tally, ask, story, pictures, quality, truth)


def _about_faults(
    tally: Tally, ask: Asker, story: Story, pictures: Sequence[Picture], quality: int, truth: str
) -> None:
    """The same clip, damaged: the answer must become that of the damaged one."""
    if len(pictures) > 3:
        half = pictures[::2]
        number = str(ask.pictures_seen(len(half)))
        tally.add("half dropped: half the number", number, ask(half, COUNT, quality))
    if len(pictures) > 1 and not story.then and story.motion != "still":
        other = Story(story.colour, story.shape, _OPPOSITE[story.motion]).caption
        backwards = unseen.renamed(pictures, pictures[::-1])
        tally.add("reversed: the opposite motion", other, ask(backwards, CAPTION, quality))
    if story.colour in _SWAPPED and not story.then:
        other = truth.replace(story.colour, _SWAPPED[story.colour])
        swapped = [(pick, rgb[..., ::-1]) for pick, rgb in pictures]
        name = "red and blue exchanged: the other colour"
        tally.add(name, other, ask(swapped, CAPTION, quality))


def model_files(model_path: str) -> dict[str, str] | None:
    """sha256 of the GGUF files beside the server's model; None where they cannot be read here."""
    folder = Path(model_path).parent
    found = sorted(folder.glob("*.gguf")) if Path(model_path).is_file() else []
    return {path.name: sha256_file(path) for path in found} or None


@click.command()
@click.argument("url")
@click.option("--clips", default=300, show_default=True, help="Clips of the exam itself.")
@click.option("--seed", default=31337, show_default=True, help="Which clips are drawn.")
@click.option("--labels/--no-labels", default=None, help="Only with, or only without, labels.")
@click.option("--json", "target", type=click.Path(path_type=Path), help="Write the results here.")
def main(url: str, clips: int, seed: int, labels: bool | None, target: Path | None) -> None:
    """Ask the demo model at URL about clips it has never seen."""
    url, fewer = url.rstrip("/"), max(1, clips * 2 // 15)
    texts = [text for text in LABELS if labels is None or bool(text) == labels]
    exams: dict[str, Callable[[Path], Tally]] = {
        f"{clips} clips, " + (f"labels {text!r}" if text else "no labels"): partial(
            take_exam, url, clips=clips, seed=seed, frame_text=text
        )
        for text in texts
    }
    exams |= {one.__name__: partial(one, url, clips=fewer) for one in (sizes, qualities, sampling)}
    try:
        props = Asker(url, Path()).props
        report = {
            "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
            "seed": seed,
            "server": props.get("build_info"),
            "model_sha256": model_files(props.get("model_path", "")),
            "exams": (results := {}),
        }
        for part, exam in exams.items():
            with tempfile.TemporaryDirectory() as folder:
                tally = exam(Path(folder))
            click.echo(f"\n## {part}\n\n{tally.table()}")
            results[part] = {"rows": tally.rows(), "wrong": tally.wrong}
            if target:
                write_json(target, report)
    except KeyelabError as error:
        raise click.ClickException(str(error)) from None


if __name__ == "__main__":
    main()
