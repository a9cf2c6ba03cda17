"""A comparison as one offline page: both records side by side, no script, and it prints."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from keyelab.record.comparison import words
from keyelab.record.comparison.side import Side, rows
from keyelab.record.page import diff_lines, picture
from keyelab.record.template import render

_FRAMES = "07_video_test-frames.png"


def html(content: dict[str, Any], a: Side, b: Side) -> str:
    """The page of what `diff.diff` found, redacted; pictures are of the records themselves."""
    patches = [{**one, "lines": diff_lines("\n".join(one["lines"]))} for one in content["patches"]]
    return render(
        "diff.html.j2",
        **{**content, "patches": patches},
        words=words,
        sides=[("A", content["a"], content["failures"]["a"]),
               ("B", content["b"], content["failures"]["b"])],
        answers=[_answers(a), _answers(b)],
        pictures=_pictures(a, b),
    )  # fmt: skip


def _answers(side: Side) -> list[tuple[str, str]]:
    """(question, answer) of 07_video_test."""
    video = side.facts("video_test")
    asked = [video, *rows(video.get("more"))] if video else []
    return [
        (str(one.get("prompt") or ""), str(one.get("answer") or one.get("error") or "(no answer)"))
        for one in asked
    ]


def _pictures(a: Side, b: Side) -> list[tuple[str, list[str]]]:
    """(name, both as data URIs) of the frames and of the plots; '' where one has none."""
    folders = [side.folder / "plots" for side in (a, b)]
    plots = {path.name for folder in folders for path in folder.glob("08_*.png")}
    found = []
    for name in (_FRAMES, *sorted(plots)):
        both = [picture(folder / name) for folder in folders]
        if any(both):
            found.append((Path(name).stem.split("-", 1)[-1].replace("-", " "), both))
    return found
