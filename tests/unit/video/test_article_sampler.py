"""What the article's index arithmetic loses, in its own numbers."""

from __future__ import annotations

import pytest

from keyelab.video.article import article_indices, comparison, reach


@pytest.mark.parametrize(
    ("candidates", "share"),
    [(10, 0.95), (11, 0.864), (18, 0.528), (19, 0.5), (29, 0.638), (100, 0.905)],
)
def test_the_tail_is_lost_unless_the_candidates_divide_evenly(
    candidates: int, share: float
) -> None:
    kept = article_indices(candidates, 10)
    assert len(kept) == 10
    assert reach(kept, candidates) == pytest.approx(share, abs=0.001)


def test_nineteen_candidates_keep_the_first_ten() -> None:
    assert article_indices(19, 10) == list(range(10))


def test_by_time_the_last_frame_stands_near_the_end() -> None:
    for row in comparison(10):
        assert int(row["last frame at, by time"].rstrip("%")) >= 90
    (nineteen,) = [row for row in comparison(10) if row["candidates"] == 19]
    assert nineteen["article's last frame at"] == "50%"
