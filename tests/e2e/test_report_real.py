"""The page of a folder of real runs: passed, failed, dry and broken ones, as people see it."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from homes import latest, make_home, run_keyelab

pytestmark = pytest.mark.e2e
CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
BROKEN = """build.cmake_options={"CMAKE_CXX_COMPILER": "/bin/false"}"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, demo_run: Path) -> Path:
    """A checkout with five folders: a passed run, a copy of it, a failed, a dry and a cut one."""
    home = make_home(tmp_path_factory.mktemp("report"))
    records = home / "records" / "cpu-demo"
    shutil.copytree(demo_run, records / demo_run.name)
    shutil.copytree(demo_run, home / "records" / "backup" / "copy")
    assert run_keyelab(home, "run", "--to", "model_fetch", "--dry-run").returncode == 0
    done = run_keyelab(home, "run", "--to", "build", "--set", BROKEN)
    assert done.returncode == 1, done.stdout
    shutil.copytree(latest(home), records / "cut")
    (records / "cut" / "run.json").write_text("{")
    done = run_keyelab(home, "report", str(home / "records"))
    assert done.returncode == 0, done.stdout
    assert "page: records/index.html" in done.stdout
    return home


@pytest.fixture
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    if CHROMIUM is None and not os.environ.get("CI"):
        pytest.skip("Chromium is not installed")
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


def test_every_folder_is_told_and_two_runs_are_counted(home: Path, demo_run: Path) -> None:
    told = json.loads(run_keyelab(home, "report", str(home / "records"), "--json").stdout)
    runs = {run["path"]: run for run in told["runs"]}
    assert told["counts"] == {"failed": 1, "passed": 1}
    assert len(runs) == 5
    passed = runs[f"cpu-demo/{demo_run.name}"]
    assert passed["counted"]
    assert passed["model"] == "keyelab-tiny-f16.gguf"
    assert passed["build"].startswith("b10019")
    assert passed["speed"]["way"] == "http"
    assert passed["speed"]["decode_tps"] > 1
    assert runs["backup/copy"]["twin"] == f"cpu-demo/{demo_run.name}"
    assert runs["cpu-demo/cut"]["status"] == "unreadable"
    assert sum(run["dry_run"] for run in told["runs"]) == 1


def test_the_failed_build_is_known_by_its_log(home: Path) -> None:
    told = json.loads(run_keyelab(home, "report", str(home / "records"), "--json").stdout)
    (failure,) = told["failures"]
    assert (failure["id"], failure["count"]) == ("compiler-does-not-work", 1)


@pytest.mark.browser
@pytest.mark.parametrize("width", [390, 1100])
def test_the_page_fits_and_asks_for_nothing(home: Path, browser: Any, width: int) -> None:
    page = browser.new_page(viewport={"width": width, "height": 900})
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.on("pageerror", lambda error: asked.append(str(error)))
    page.goto((home / "records" / "index.html").as_uri())
    assert len(asked) == 1
    assert page.evaluate("document.documentElement.scrollWidth") == width
    tables = "[...document.querySelectorAll('.wide')].map(e => e.scrollWidth - e.clientWidth)"
    assert set(page.evaluate(tables)) == {0}, "a table is cut"
    assert page.locator(".runs tbody tr").count() == 5


@pytest.mark.browser
def test_a_click_on_a_head_sorts_and_without_scripts_all_is_there(home: Path, browser: Any) -> None:
    page = browser.new_page()
    page.goto((home / "records" / "index.html").as_uri())
    first = page.locator(".runs tbody tr").first
    page.get_by_role("button", name="took (s)").click()
    assert "passed" in first.inner_text()
    page.get_by_role("button", name="status").click()
    assert "warned" in first.inner_text() or "unreadable" in first.inner_text()
    assert page.locator("th[aria-sort]").count() == 1
    still = browser.new_context(java_script_enabled=False).new_page()
    still.goto((home / "records" / "index.html").as_uri())
    assert still.locator("button").count() == 0
    assert still.locator(".runs tbody tr").count() == 5
    assert still.locator("svg.trend title").count() == 1
