"""A person's view: JupyterLab runs a notebook, and a record opens from a file."""

from __future__ import annotations

import os
import re
import secrets
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(
        CHROMIUM is None and not os.environ.get("CI"), reason="Chromium is not installed"
    ),
]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    assert CHROMIUM, "CI must have Chromium: apt-get install chromium"
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield opened
        opened.close()


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[str]:
    """The address of a JupyterLab on a copy of the notebooks."""
    shutil.copytree(ROOT / "notebooks", tmp_path / "notebooks")
    for name in ("params", "patches", "keyelab"):
        (tmp_path / name).symlink_to(ROOT / name)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    token = secrets.token_hex(8)
    log = (tmp_path / "lab.log").open("w")
    process = subprocess.Popen(
        [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root",
         f"--port={port}", f"--IdentityProvider.token={token}", "--ServerApp.ip=127.0.0.1",
         f"--notebook-dir={tmp_path}"],
        env={**os.environ, "KEYELAB_HOME": str(tmp_path), "JUPYTER_PREFER_ENV_PATH": "1"},
        stdout=log, stderr=log,
    )  # fmt: skip
    try:
        for _ in range(300):
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/api", timeout=2).close()
                break
            except OSError:
                time.sleep(0.2)
        else:
            raise AssertionError((tmp_path / "lab.log").read_text()[-2000:])
        yield f"http://127.0.0.1:{port}/lab/tree/notebooks/01_env_check.ipynb?token={token}"
    finally:
        process.terminate()
        process.wait(20)
        log.close()


def test_jupyterlab_runs_all_cells_and_shows_checks_and_panel(browser: Any, lab: str) -> None:
    page = browser.new_page(viewport={"width": 1400, "height": 1000})
    page.goto(lab)
    page.wait_for_selector(".jp-Notebook", timeout=90_000)
    run_all(page)
    page.wait_for_selector(".keyelab-panel", timeout=60_000)
    verdict = page.get_by_role("heading", name=re.compile("01_env_check: (passed|warned)"))
    verdict.wait_for(timeout=60_000)
    assert page.locator(".keyelab-panel input[type=checkbox]").count() == 2
    assert page.get_by_role("cell", name="OpenCV").count() >= 1
    assert page.locator("[data-mime-type='application/vnd.jupyter.error']").count() == 0
    if shots := os.environ.get("KEYELAB_SHOTS"):
        page.locator(".keyelab-panel").scroll_into_view_if_needed()
        page.screenshot(path=f"{shots}/lab.png")
    page.close()


def run_all(page: Any) -> None:
    """Click Run All Cells until a cell starts: JupyterLab drops it while the kernel connects."""
    import playwright.sync_api

    for _ in range(5):
        page.get_by_text("Python 3 (ipykernel) | Idle").wait_for(timeout=60_000)
        page.get_by_role("menuitem", name="Run", exact=True).click()
        page.get_by_text("Run All Cells", exact=True).first.click()
        try:
            page.get_by_text(re.compile(r"^\[(1|\*)\]:$")).first.wait_for(timeout=10_000)
        except playwright.sync_api.TimeoutError:
            continue
        return
    raise AssertionError("JupyterLab never started the cells")


def test_the_record_opens_from_a_file_without_a_request(browser: Any, demo_run: Path) -> None:
    page = browser.new_page(viewport={"width": 1100, "height": 900})
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto((demo_run / "index.html").as_uri())
    assert page.locator("td .badge.passed").count() == 8
    assert page.locator(".badge.failed").count() == 0
    assert page.locator("blockquote.answer").inner_text() == "a red circle moves right"
    assert [url for url in asked if not url.startswith(("file:", "data:"))] == []
    if shots := os.environ.get("KEYELAB_SHOTS"):
        page.screenshot(path=f"{shots}/index.png", full_page=True)
        page.set_viewport_size({"width": 390, "height": 800})
        page.screenshot(path=f"{shots}/index-phone.png", full_page=True)
    page.set_viewport_size({"width": 390, "height": 800})
    width = page.evaluate("document.documentElement.scrollWidth")
    assert width <= 390, "the page scrolls sideways on a phone"
    page.close()
