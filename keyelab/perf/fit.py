"""A straight line through measurements, and how far it can be trusted.

Ordinary least squares: the article's windows give 0.0169 ms per token of depth by it and 0.0168 by
Theil and Sen's median of slopes, so outliers do not decide. What does is that neighbouring windows
resemble each other (correlation of residuals 0.67 there): they count for fewer than they are, and
the intervals are wider by that.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

LEAST = 4  # measurements, before there is a line
_MOST_ALIKE = 0.95


@dataclass(frozen=True)
class Line:
    """y = intercept + slope * x, from n measurements with x from `low_x` to `high_x`.

    `alike` is the correlation of neighbouring residuals, `effective_n` the independent
    measurements that they are worth, `residual` their standard deviation (in units of y).
    """

    intercept: float
    slope: float
    n: int
    low_x: float
    high_x: float
    residual: float
    alike: float
    covariance: tuple[tuple[float, float], tuple[float, float]]
    residuals: tuple[float, ...]

    @property
    def effective_n(self) -> float:
        """n independent measurements would say as much."""
        return max(3.0, self.n * (1 - self.alike) / (1 + self.alike))

    @property
    def t(self) -> float:
        """Half width of a 95 % interval in standard errors."""
        return student_t(self.effective_n - 2)

    def slope_interval(self) -> tuple[float, float]:
        """95 % interval of the slope."""
        half = self.t * math.sqrt(self.covariance[1][1])
        return self.slope - half, self.slope + half

    def at(self, x: float) -> tuple[float, float, float]:
        """The mean of y at x, and its 95 % interval."""
        return self.total([x])

    def total(self, xs: Any, spread: float = 0.0) -> tuple[float, float, float]:
        """The sum of y over `xs`, and its 95 % interval.

        `spread` is the standard deviation of what the line leaves open in that sum.
        """
        count, sum_x = len(xs), float(sum(xs))
        (aa, ab), (_, bb) = self.covariance
        variance = count * count * aa + 2 * count * sum_x * ab + sum_x * sum_x * bb
        half = self.t * math.sqrt(max(variance, 0.0) + spread**2)
        value = count * self.intercept + sum_x * self.slope
        return value, value - half, value + half

    def doubles_at(self) -> tuple[float, float, float] | None:
        """The x at which y is twice its value at 0, and its 95 % interval (Fieller's).

        None where y may as well not grow with x, or where its value at 0 may as well be nothing.
        """
        if self.slope_interval()[0] <= 0 or self.at(0)[1] <= 0:
            return None
        (aa, ab), (_, bb) = self.covariance
        t2 = self.t**2
        a = self.slope**2 - t2 * bb
        b = -2 * (self.slope * self.intercept - t2 * ab)
        c = self.intercept**2 - t2 * aa
        root = math.sqrt(max(b * b - 4 * a * c, 0.0))
        low, high = (-b - root) / (2 * a), (-b + root) / (2 * a)
        return self.intercept / self.slope, max(low, 0.0), high


def fit(x: Any, y: Any) -> Line | None:
    """The line through points, in the order of measurement; None for fewer than 4 or one x."""
    import numpy as np

    x, y = np.asarray(x, float), np.asarray(y, float)
    if len(x) < LEAST or np.ptp(x) <= 1e-9 * max(1.0, float(np.abs(x).max())):
        return None
    middle = x.mean()
    spread = float(((x - middle) ** 2).sum())
    slope = float(((x - middle) * (y - y.mean())).sum() / spread)
    intercept = float(y.mean() - slope * middle)
    rest = y - intercept - slope * x
    alike = float((rest[1:] * rest[:-1]).sum() / max((rest**2).sum(), 1e-300))
    alike = min(max(alike, 0.0), _MOST_ALIKE) if len(x) >= 10 else 0.0
    variance = float((rest**2).sum() / (len(x) - 2))
    wider = variance * (1 + alike) / (1 - alike)
    bb = wider / spread
    covariance = ((wider / len(x) + middle**2 * bb, -middle * bb), (-middle * bb, bb))
    return Line(
        intercept, slope, len(x), float(x.min()), float(x.max()), math.sqrt(variance), alike,
        tuple(tuple(map(float, row)) for row in covariance),  # type: ignore[arg-type]
        tuple(map(float, rest)),
    )  # fmt: skip


def mean_total(y: Any, count: int) -> tuple[float, float, float] | None:
    """The sum of `count` more values like these, and its 95 % interval; None for fewer than 2."""
    import numpy as np

    y = np.asarray(y, float)
    if len(y) < 2:
        return None
    deviation = float(y.std(ddof=1)) * math.sqrt(count * count / len(y) + count)
    value, half = count * float(y.mean()), student_t(len(y) - 1) * deviation
    return value, value - half, value + half


def student_t(freedom: float, share: float = 0.95) -> float:
    """The half width that holds `share` of Student's distribution, by adding up its density."""
    import numpy as np

    freedom = max(freedom, 1.0)
    angle = np.linspace(0, math.pi / 2, 20_001)[:-1]  # x = sqrt(freedom) * tan(angle)
    density = np.cos(angle) ** (freedom - 1)
    steps = np.concatenate([[0.0], np.cumsum((density[1:] + density[:-1]) / 2)])
    whole = steps[-1] + density[-1] / 2
    return math.sqrt(freedom) * math.tan(float(np.interp(share, steps / whole, angle)))
