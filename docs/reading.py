"""Makes docs/reading.png: python docs/reading.py RUN

The page of a run, shortened, with a number at each thing to look at; README.md says what they are.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

from keyelab.files import write_bytes

WIDTH = 900  # px, the column of numbers included
PLACES = (  # what README.md numbers, in its order
    "h1",
    "header p:last-of-type",
    "blockquote.answer",
    "h2:text-is('Phases')",
    "h2:text-is('What it ran on and what it was made of')",
    "text=Check this record",
)
SHORTENED = """
body { padding-left:36px; } main { padding-bottom:0; } header { padding-top:0; }
img { max-width:27rem; } pre { max-height:4.6rem; overflow:hidden; }
.number { position:absolute; left:12px; width:30px; height:30px; border-radius:15px; color:#fff;
  background:#0072B2; font:700 17px/30px sans-serif; text-align:center; }
"""
HIDE = """titles => document.querySelectorAll("section").forEach(section => {
  if (titles.includes(section.querySelector("h2").textContent)) section.remove();
})"""
NUMBER = """(element, number) => {
  const box = element.getBoundingClientRect(), mark = document.createElement("div");
  mark.className = "number"; mark.textContent = number;
  mark.style.top = `${box.top + window.scrollY + Math.min(box.height, 40) / 2 - 15}px`;
  document.body.append(mark);
}"""


def main(run: Path, target: Path) -> None:
    """Number the page of a run and take its picture."""
    with sync_playwright() as playwright:
        chromium = shutil.which("chromium") or shutil.which("google-chrome")
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": WIDTH, "height": 600})
        page.goto((run / "index.html").resolve().as_uri())
        page.add_style_tag(content=SHORTENED)
        page.evaluate(HIDE, ["Speed", "Diffs applied", "Parameters"])
        for number, place in enumerate(PLACES, 1):
            page.locator(place).first.evaluate(NUMBER, number)
        write_bytes(target, page.screenshot(full_page=True))
        browser.close()


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("expected a run folder: docs/reading.py records/TARGET/RUN")
    main(Path(sys.argv[1]), Path(__file__).with_suffix(".png"))
