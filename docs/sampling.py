"""Makes docs/sampling.png, with the demo model answering: python docs/sampling.py URL

The same clip, sampled as the article's program does and by time, and what the model says of each.
"""

from __future__ import annotations

import io
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure

from keyelab.files import write_bytes
from keyelab.video import exam, unseen
from keyelab.video.asker import Asker
from keyelab.video.demo import Film, Story, make_clip
from keyelab.video.probe import probe
from keyelab.video.unseen import Picture

STORY = Story("yellow", "circle", "right", "blue", at=0.9)
FILM = Film(duration_s=9.5, radius=0.14)
RIGHT, WRONG = "#0072B2", "#D55E00"  # blue and vermilion of Okabe and Ito, told apart by everyone


def main(url: str, target: Path) -> None:
    """Ask the server about the clip in both ways and draw what it was shown and what it said."""
    figure = Figure(figsize=(10, 4.6), layout="constrained")
    figure.suptitle(
        f"A clip of {FILM.duration_s:g} s, 2 frames a second asked for, at most 10: "
        f"“{STORY.caption}”, at {STORY.at * FILM.duration_s:.2f} s",
        fontsize=11,
    )
    with tempfile.TemporaryDirectory() as name:
        info = probe(make_clip(Path(name) / "clip.mp4", STORY, FILM))
        ask = Asker(url, Path(name))
        ways = exam.samplers(info, FILM)
        titles = ("by time (keyelab)", "by index (the article)")
        parts: Any = figure.subfigures(2, 1)
        for part, title, picks in zip(parts[::-1], titles, ways.values(), strict=True):
            pictures = unseen.pictures(info, 10, picks=picks)
            _row(part, title, pictures, ask(pictures, exam.CAPTION))
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=130, facecolor="white")
    write_bytes(target, buffer.getvalue())


def _row(part: SubFigure, title: str, pictures: Sequence[Picture], answer: str) -> None:
    """The frames of one sampler, where they stand in the clip, and the answer to them."""
    right = answer == STORY.caption
    colour = RIGHT if right else WRONG
    grid: dict[str, Axes] = part.subplot_mosaic(
        [[str(i) for i in range(len(pictures))], ["line"] * len(pictures)],
        height_ratios=(5, 1),
    )
    for number, (pick, rgb) in enumerate(pictures):
        axes = grid[str(number)]
        axes.imshow(rgb)
        axes.set_axis_off()
        axes.set_title(f"{pick.time_s:.2f} s", fontsize=9, pad=3)
    line = grid["line"]
    start_s, end_s = STORY.at * FILM.duration_s, FILM.duration_s
    times_s = [pick.time_s or 0.0 for pick, _ in pictures]
    line.set_xlim(-0.05, end_s)
    line.set_ylim(-1, 1)
    line.axvspan(start_s, end_s, color="0.85")
    line.text(end_s - 0.03, 0, STORY.then, ha="right", va="center", fontsize=8)
    line.plot(times_s, [0] * len(pictures), "|", ms=12, mew=2, color=colour)
    line.xaxis.set_major_formatter("{x:g} s")
    line.set_yticks([])
    line.tick_params(labelsize=8)
    line.set_xlabel(
        f"{'right' if right else 'wrong'}: “{answer}”", fontsize=12, color=colour, weight="bold"
    )
    part.suptitle(f"sampled {title}", fontsize=10, x=0.005, ha="left")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("expected the URL of a llama-server with the demo model: docs/sampling.py URL")
    main(sys.argv[1].rstrip("/"), Path(__file__).with_suffix(".png"))
