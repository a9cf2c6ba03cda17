"""Makes docs/workarounds.png: python docs/workarounds.py

Decode speed against context depth, as a share of the speed at the beginning: the article's log, and
a model of the same geometry on an NVIDIA H200 (tests/gpu/results/h200-b10019-workarounds.json).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from keyelab.perf import tables
from keyelab.perf.draw import AMBER, BLUE, GREEN, GREY, ORANGE, PINK, grid, written
from keyelab.perf.plots import curve
from keyelab.perf.reader import ARTICLE_LOG

ROOT = Path(__file__).parents[1]
MEASURED = ROOT / "tests" / "gpu" / "results" / "h200-b10019-workarounds.json"
LINES = (  # case, flash attention, label, colour, mark
    ("stock", True, "flash attention", BLUE, "o"),
    ("stock", False, "no flash attention", GREEN, "^"),
    ("sparse-card", False, "sparse attention, TOP_K on the card", AMBER, "v"),
    ("sparse-cpu", False, "sparse attention, TOP_K on the CPU", ORANGE, "s"),
    ("sparse-argsort-cpu", False, "sparse attention, ARGSORT on the CPU", PINK, "D"),
)


def main() -> None:
    """Draw the article's samples and the five measured cases."""
    from matplotlib.figure import Figure

    rows: list[dict[str, Any]] = json.loads(MEASURED.read_text(encoding="utf-8"))
    drawn = Figure(figsize=(8.4, 5.0), layout="constrained")
    axes = drawn.subplots()
    theirs = curve("", tables.read_tables([ARTICLE_LOG]))
    first_ms = float(theirs.means[1][0])
    for depths, ms in (theirs.means, theirs.points):
        axes.plot(depths, first_ms / ms, "x", color=GREY, zorder=3)
    axes.plot([], [], "x", color=GREY, label=f"the article's log: {1000 / first_ms:.0f} tokens/s")
    for case, flash, label, colour, mark in LINES:
        mine = [
            row
            for row in rows
            if (row["model"], row["what"], row["case"], row["flash_attention"])
            == ("keye-bf16", "decode", case, flash)
        ]
        mine.sort(key=lambda row: row["depth_tokens"])
        start = mine[0]["tps"][1]
        least, middle, most = zip(*(row["tps"] for row in mine), strict=True)
        at = [row["depth_tokens"] for row in mine]
        spread = [
            [(m - low) / start for m, low in zip(middle, least, strict=True)],
            [(high - m) / start for m, high in zip(middle, most, strict=True)],
        ]
        axes.errorbar(
            at, [value / start for value in middle], spread, color=colour, marker=mark, capsize=3,
            label=f"{label}: {start:.0f} tokens/s",
        )  # fmt: skip
    axes.set(
        title="Decode speed as a share of that at the beginning of the context",
        xlabel="context depth (tokens)",
        ylabel="share",
        ylim=(0, 1.3),
    )
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    grid(axes)
    drawn.legend(loc="outside lower center", ncols=2, frameon=False, fontsize=9)
    written(drawn, ROOT / "docs" / "workarounds.png")


if __name__ == "__main__":
    main()
