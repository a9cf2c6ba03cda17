"""Where a video comes from: a file, or the demo clip."""

from __future__ import annotations

from pathlib import Path

from keyelab.files import located
from keyelab.video.demo import Story, make_clip


def obtain(video: str, workdir: Path) -> Path:
    """The video that a parameter names; without a name a red circle that moves right is made."""
    if video:
        return located(video)
    story = Story()
    return make_clip(workdir / "videos" / f"{story.caption.replace(' ', '-')}.mp4", story)
