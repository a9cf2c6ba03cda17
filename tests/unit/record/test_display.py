"""Outputs read in every renderer and keep a plain text twin."""

from __future__ import annotations

from typing import Any

import pytest

from keyelab.record import display


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, str]]:
    outputs: list[dict[str, str]] = []

    def keep(data: dict[str, str], metadata: Any = None) -> None:
        outputs.append(data)

    monkeypatch.setattr(display, "_show", keep)
    return outputs


def test_folded_text_stays_one_html_block_and_is_escaped(shown: list[dict[str, str]]) -> None:
    display.code("a <b>\n\n```c\n", "diff", "what & why")
    (data,) = shown
    assert "\n" not in data["text/markdown"]
    assert "a &lt;b&gt;&#10;&#10;```c</pre></details>" in data["text/markdown"]
    assert "what &amp; why" in data["text/markdown"]
    assert data["text/plain"] == "what & why\na <b>\n\n```c\n"


def test_a_fence_is_longer_than_any_inside(shown: list[dict[str, str]]) -> None:
    display.code("````\nx\n````", "sh", "")
    assert shown[0]["text/markdown"].startswith("`````sh\n")
