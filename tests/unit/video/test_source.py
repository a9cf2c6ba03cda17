"""Which video is asked about."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from keyelab.errors import UsageError
from keyelab.video import source
from keyelab.video.source import obtain


def test_no_name_makes_the_red_circle_and_a_name_is_taken_as_it_is(tmp_path: Path) -> None:
    assert obtain("", tmp_path).name == "a-red-circle-moves-right.mp4"
    assert obtain(str(tmp_path / "mine.mp4"), tmp_path) == tmp_path / "mine.mp4"
    assert obtain(str(tmp_path), tmp_path) == tmp_path
    assert obtain(str(tmp_path / "a:b.mp4"), tmp_path) == tmp_path / "a:b.mp4"


def test_a_url_is_downloaded_with_the_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[Any] = []
    monkeypatch.setattr(source, "download", lambda *a, **k: calls.append((a, k)) or tmp_path / "x")
    assert obtain("HTTPS://h/v.mp4", tmp_path, max_download_mib=7) == tmp_path / "x"
    assert calls == [(("HTTPS://h/v.mp4", tmp_path / "videos"), {"max_mib": 7})]


@pytest.mark.parametrize("url", ["ftp://u:secret@h/v.mp4", "file:///etc/passwd", "rtsp://h/live"])
def test_other_schemes_are_refused_without_showing_the_address(tmp_path: Path, url: str) -> None:
    with pytest.raises(UsageError, match=r"http\(s\) URL, found \w+://…") as caught:
        obtain(url, tmp_path)
    assert "secret" not in str(caught.value)
