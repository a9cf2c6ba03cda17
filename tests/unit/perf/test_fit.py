"""A line and its intervals, against known answers and by simulation."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyelab.perf.fit import fit, mean_total, student_t


@pytest.mark.parametrize(
    ("freedom", "half"), [(1, 12.706), (2, 4.303), (5, 2.571), (30, 2.042), (1e5, 1.960)]
)
def test_students_t_is_the_tables(freedom: float, half: float) -> None:
    assert student_t(freedom) == pytest.approx(half, rel=1e-3)


def test_a_textbook_line() -> None:
    # Anscombe's first data set: y = 3.00 + 0.500 x, standard errors 1.125 and 0.118
    x = [10, 8, 13, 9, 11, 14, 6, 4, 12, 7, 5]
    y = [8.04, 6.95, 7.58, 8.81, 8.33, 9.96, 7.24, 4.26, 10.84, 4.82, 5.68]
    line = fit(x, y)
    assert line is not None
    assert (line.intercept, line.slope) == pytest.approx((3.0001, 0.50009), abs=1e-4)
    assert line.covariance[1][1] ** 0.5 == pytest.approx(0.1179, abs=1e-3)
    assert line.covariance[0][0] ** 0.5 == pytest.approx(1.1247, abs=1e-3)
    assert line.slope_interval() == pytest.approx((0.2334, 0.7668), abs=2e-3)
    assert sum(line.residuals) == pytest.approx(0, abs=1e-9)


def test_too_few_points_or_one_depth_give_no_line() -> None:
    assert fit([1, 2, 3], [1, 2, 3]) is None
    assert fit([5, 5, 5, 5], [1, 2, 3, 4]) is None
    assert mean_total([1.0], 3) is None


def simulated(rng: np.random.Generator, alike: float, n: int = 150) -> tuple[object, object]:
    noise = np.zeros(n)
    for step in range(1, n):
        noise[step] = alike * noise[step - 1] + rng.normal()
    x = np.linspace(12_000, 13_700, n)
    return x, 80 + 0.016 * x + 4 * noise


@pytest.mark.parametrize("alike", [0.0, 0.65])
def test_the_interval_holds_the_truth_about_19_times_in_20(alike: float) -> None:
    rng = np.random.default_rng(7)
    held = 0
    for _ in range(300):
        line = fit(*simulated(rng, alike))
        assert line is not None
        low, high = line.slope_interval()
        held += low <= 0.016 <= high
    assert held / 300 > 0.88


def test_neighbours_that_resemble_each_other_count_for_fewer() -> None:
    rng = np.random.default_rng(1)
    apart, alike = fit(*simulated(rng, 0.0)), fit(*simulated(rng, 0.65))
    assert apart is not None
    assert alike is not None
    assert apart.effective_n > 2 * alike.effective_n


def test_the_depth_of_half_speed_is_none_where_nothing_grows() -> None:
    x = np.arange(40.0)
    rng = np.random.default_rng(2)
    steep, flat = fit(x, 10 + x + rng.normal(0, 0.1, 40)), fit(x, 10 + rng.normal(0, 1, 40))
    assert steep is not None
    assert flat is not None
    found = steep.doubles_at()
    assert found is not None
    value, low, high = found
    assert low < 10 < high
    assert value == pytest.approx(10, abs=0.2)
    assert flat.doubles_at() is None


@given(
    st.floats(-100, 100), st.floats(-5, 5), st.lists(st.integers(0, 10**5), min_size=4, unique=True)
)
def test_a_line_without_noise_is_found_again(a: float, b: float, xs: list[int]) -> None:
    line = fit(xs, [a + b * x for x in xs])
    assert line is not None
    assert line.slope == pytest.approx(b, abs=1e-6)
    assert line.total(xs)[0] == pytest.approx(sum(a + b * x for x in xs), rel=1e-6, abs=1e-3)
