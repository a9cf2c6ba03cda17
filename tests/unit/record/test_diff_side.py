"""Which record is meant, and what is said of one before anything is compared."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from diffruns import make, pair
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from keyelab.commands.diff import diff as command
from keyelab.errors import KeyelabError, UsageError
from keyelab.pipeline import NEEDS
from keyelab.record.comparison import side, text
from keyelab.record.comparison.page import html
from keyelab.record.diff import diff
from keyelab.record.run import point_latest


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty checkout."""
    for name in ("notebooks", "params"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("KEYELAB_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def runs(home: Path, *names: str, target: str = "cpu-demo", **run: Any) -> list[Path]:
    return [make(home / "records" / target / name, **run) for name in names]


def call(*words: str | Path) -> Result:
    return CliRunner().invoke(command, [str(word) for word in words])


def test_a_record_is_found_by_folder_run_json_id_its_beginning_and_target(home: Path) -> None:
    one, two = runs(home, "20260101T000000Z-aaaaaaaa", "20260102T000000Z-bbbbbbbb")
    for name in (str(one), "records/cpu-demo/20260101T000000Z-aaaaaaaa", f"{one}/run.json",
                 one.name, "20260101"):  # fmt: skip
        assert side.read(name).folder.resolve() == one
    assert side.read("cpu-demo").folder == two, "the newest, where no run has ended well"
    point_latest(one)
    assert side.read("cpu-demo").folder == one


@pytest.mark.parametrize(
    ("name", "found"),
    [("nothing", "found none"), ("2026", "found 2 that begin so"), ("params", "without run.json"),
     ("copy.zip", "found a file"), ("", "without run.json"), ("x/../y", "found none")],
)  # fmt: skip
def test_what_is_no_record_is_one_sentence(home: Path, name: str, found: str) -> None:
    runs(home, "20260101T000000Z-aaaaaaaa", "20260102T000000Z-bbbbbbbb")
    (home / "copy.zip").write_text("x")
    with pytest.raises(KeyelabError, match=found):
        side.read(name)


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"run_id": "x", "phases": 3}'])
def test_a_damaged_run_json_is_one_sentence_and_exit_code_2(home: Path, content: str) -> None:
    one, two = runs(home, "20260101T000000Z-aaaaaaaa", "20260102T000000Z-bbbbbbbb")
    (two / "run.json").write_text(content)
    done = call(one, two)
    assert isinstance(done.exception, UsageError)
    assert done.exception.exit_code == 2
    assert "run.json" in done.exception.message or "run record" in done.exception.message


def test_one_argument_is_compared_with_the_run_before(home: Path) -> None:
    one, two, three = runs(home, *(f"2026010{n}T000000Z-aaaaaaaa" for n in (1, 2, 4)))
    runs(home, "20260103T000000Z-aaaaaaaa", dry_run=True)
    point_latest(three)
    content = json.loads(call("cpu-demo", "--json").stdout)
    assert [content[name]["run_id"] for name in "ab"] == [two.name, three.name]
    with pytest.raises(KeyelabError, match="expected a run before"):
        side.before(side.read(str(one)))


def test_an_edited_record_is_told_on_top(home: Path) -> None:
    a, b = (one.folder for one in pair(home, {}, {}))
    (a / "patches" / "01-norm.diff").write_text("+ other\n")
    (b / "SHA256SUMS").unlink()
    lines = call(a, b).stdout.splitlines()
    assert lines[1].startswith("   A was edited after it was sealed: patches/01-norm.diff: content")
    assert lines[3] == "   B was never sealed: it has no SHA256SUMS"


def test_running_dry_and_copied_records_say_so(home: Path) -> None:
    copy = {"run_id": "20260101T000000Z-cccccccc", "sums_sha256": "0" * 64}
    a, b = pair(home, {"status": "running"}, {"dry_run": True, "original": copy})
    assert a.doubts == ["was never sealed: it still runs, or was killed"]
    assert any("dry run" in doubt for doubt in b.doubts)
    assert any("shared copy of 20260101T000000Z-cccccccc" in doubt for doubt in b.doubts)


def test_what_a_shared_copy_hides_is_no_difference(home: Path) -> None:
    copy = {"original": {"run_id": "r", "sums_sha256": "0" * 64}}

    def origin(text: str, cpu: str) -> Any:
        return {"facts": {"source_patch": {"origin": text}, "env_check": {"cpu": cpu}}}

    a = origin("git https://git.corp.local/x at main", "CPU X")
    b = {**origin("git https://host-a/x at main", "CPU Y"), **copy}
    content = diff(*pair(home, a, b), NEEDS, lambda one, other: None)
    assert [one["key"] for one in content["causes"]] == ["host.CPU"]
    plain = {**b, "original": None}
    content = diff(*pair(home / "2", a, plain), NEEDS, lambda one, other: None)
    assert "source.origin" in {one["key"] for one in content["causes"]}


def test_exit_codes_are_those_of_diff(home: Path) -> None:
    a, b = (one.folder for one in pair(home, {}, {"failed": "build"}))
    assert [call(a, a).exit_code, call(a, b).exit_code, call().exit_code] == [0, 1, 2]


def test_a_page_that_cannot_be_written_is_one_sentence(home: Path) -> None:
    a, b = (one.folder for one in pair(home, {}, {}))
    (home / "file").write_text("x")
    done = call(a, b, "--html", home / "file" / "page.html")
    assert isinstance(done.exception, UsageError)
    assert "expected to write file/page.html, found: " in done.exception.message
    assert call(a, b, "--html", home).exit_code == 2


def test_the_page_is_one_file_with_both_sides_and_nothing_from_outside(home: Path) -> None:
    a, b = pair(home, {}, {"failed": "serve", "message": "<b>out</b> of memory"})
    for one in (a, b):
        (one.folder / "plots").mkdir()
        (one.folder / "plots" / "07_video_test-frames.png").write_bytes(b"png")
    content = diff(a, b, NEEDS, lambda one, other: None)
    page = html(content, a, b)
    assert page.count("data:image/png;base64,cG5n") == 2
    assert "&lt;b&gt;out&lt;/b&gt; of memory" in page
    assert "Why <code>serve</code> ended otherwise" in page
    assert "a red circle" in page
    assert "none: it did not get there" in page
    assert page.count("src=") == page.count('src="data:image/png;base64,')
    for word in ("<script", "http://", "https://", "url(", "<link"):
        assert word not in page


LEAVES = st.none() | st.booleans() | st.integers(-5, 5) | st.floats(allow_nan=False)
NAMES = st.sampled_from(["value", "status", "name", "id", "sha256"])
JSON = st.recursive(
    LEAVES | st.text("ab/-", max_size=4),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(NAMES, inner, max_size=2),
    max_leaves=4,
)


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_a_record_of_any_shape_is_compared_without_a_fault(home: Path, data: st.DataObject) -> None:
    folder = home / "records/cpu-demo/20260101T000000Z-aaaaaaaa"
    if not folder.exists():
        pair(home, {"checks": {"build.x": "ok"}}, {})
    whole = side.read(str(folder))
    damaged = json.loads(json.dumps(whole.run))
    places = list(_places(damaged))
    told = {"run_id", "phase", "message", "cpu", "version"}
    upper = [place for place in places if isinstance(place[0], dict) and told & place[0].keys()]
    for _ in range(data.draw(st.integers(1, 6))):
        holder, name = data.draw(st.sampled_from(places) | st.sampled_from(upper))
        if name in holder if isinstance(holder, dict) else name < len(holder):
            holder[name] = data.draw(JSON)
    other = side.Side(folder, damaged, [])
    content = diff(whole, other, NEEDS, lambda one, two: None)
    assert "\n".join(text.lines(content))
    assert html(content, whole, other).endswith("</html>")
    json.dumps(content)


def _places(value: Any) -> Any:
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for name, inner in list(items):
        yield value, name
        if isinstance(inner, dict | list):
            yield from _places(inner)
