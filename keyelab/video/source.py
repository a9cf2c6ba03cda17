"""Where a video comes from: a file, a folder of pictures, a URL, or the demo clip."""

from __future__ import annotations

import re
from pathlib import Path

from keyelab.errors import UsageError
from keyelab.files import located
from keyelab.video.demo import Story, make_clip
from keyelab.video.download import download


def obtain(video: str, workdir: Path, *, max_download_mib: int = 2048) -> Path:
    """The video that a parameter names; without a name a red circle that moves right is made.

    Raises UsageError for a URL that is not http or https, KeyelabError for one that fails.
    """
    scheme = re.match(r"(?i)([a-z][a-z0-9+.-]*)://", video)
    if scheme and not Path(video).exists():
        if scheme[1].lower() not in ("http", "https"):
            raise UsageError(
                f"video_test.video: expected a file, a folder or a http(s) URL, found {scheme[0]}…",
                "download it yourself and set video_test.video to the file",
            )
        return download(video, workdir / "videos", max_mib=max_download_mib)
    if video:
        return located(video)
    story = Story()
    return make_clip(workdir / "videos" / f"{story.caption.replace(' ', '-')}.mp4", story)
