"""The index counts each run once, shows every folder, and harms nothing."""

from __future__ import annotations

import re
import resource
import shutil
import time
from html.parser import HTMLParser
from pathlib import Path

import pytest
from made_runs import FACTS, make_run

from keyelab.errors import KeyelabError
from keyelab.record.index import as_json, gather, lines, page, summary, write
from keyelab.record.run import Original

KILLED = "c++: fatal error: Killed signal terminated program cc1plus\n"


def shown(folder: Path) -> str:
    return page(gather(folder), folder / "index.html")


def rows_of(text: str) -> list[str]:
    """The text of each row of the table of runs."""
    table = text.split('class="runs"')[1]
    found = re.findall(r"<tr.*?</tr>", table.split("<tbody>")[1].split("</tbody>")[0], re.DOTALL)
    return [re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", row)) for row in found]


def test_one_row_a_run_newest_first(tmp_path: Path) -> None:
    make_run(tmp_path / "cpu-demo", 1)
    make_run(tmp_path / "cpu-demo", 2, failed="build", log=KILLED)
    newest, older = rows_of(shown(tmp_path))
    for part in ("failed", "20261103T", "compiler-killed", "seen once, first 2026-11-03"):
        assert part in newest
    for part in ("passed", "tiny.gguf aaaaaaaaaaaa", "b10019, k100ai", "20.0", "300", "c0ffee"):
        assert part in older


def test_a_failure_is_counted_over_the_folder(tmp_path: Path) -> None:
    for number in (1, 2, 3):
        make_run(tmp_path, number, failed="build", log=KILLED)
    make_run(tmp_path, 4, failed="serve", message="expected 1, found 2")
    make_run(tmp_path, 5, failed="serve", message="the run was interrupted", kind="interrupted")
    index = gather(tmp_path)
    often, once = index.seen.values()
    assert (often.fault.id, str(often)) == ("compiler-killed", "seen 3 times, first 2026-11-02")
    assert (once.fault.id, str(once)) == ("", "seen once, first 2026-11-05")
    assert "not in the catalogue" in shown(tmp_path)
    assert index.counts == {"failed": 4, "interrupted": 1}


def test_dry_runs_are_marked_and_not_counted(tmp_path: Path) -> None:
    make_run(tmp_path, 1, dry_run=True, failed="build", log=KILLED)
    make_run(tmp_path, 2)
    index = gather(tmp_path)
    assert index.counts == {"passed": 1}
    assert index.seen == {}
    assert summary(index) == "1 run: 1 passed; not counted: 1 dry"
    assert "dry run, not counted" in rows_of(shown(tmp_path))[1]


def test_a_run_that_is_there_twice_is_counted_once(tmp_path: Path) -> None:
    run = make_run(tmp_path / "cpu-demo", 1, failed="build", log=KILLED)
    shutil.copytree(run, tmp_path / "backup" / run.name)
    make_run(
        tmp_path / "shared", 1, run_id="r", original=Original(run_id=run.name, sums_sha256="0" * 64)
    )
    index = gather(tmp_path)
    assert index.counts == {"failed": 1}
    assert str(next(iter(index.seen.values()))) == "seen once, first 2026-11-02"
    text = shown(tmp_path)
    assert f"shared copy of {run.name}" in text
    assert text.count("the same run as backup/") == 2


def test_the_original_is_counted_and_not_its_shared_copy(tmp_path: Path) -> None:
    run = make_run(tmp_path / "z", 1)
    original = Original(run_id=run.name, sums_sha256="0" * 64)
    copy = make_run(tmp_path / "a", 1, original=original)
    twins = {row.folder: row.twin for row in gather(tmp_path).rows}
    assert twins == {run: None, copy: run}


def test_an_edited_copy_is_not_counted_in_place_of_the_run(tmp_path: Path) -> None:
    run = make_run(tmp_path / "z", 1)
    shutil.copytree(run, tmp_path / "a" / run.name)
    with (tmp_path / "a" / run.name / "run.json").open("a") as content:
        content.write(" ")
    assert [row.folder for row in gather(tmp_path).rows if row.counted] == [run]


def test_a_shared_copy_alone_is_counted(tmp_path: Path) -> None:
    make_run(tmp_path, original=Original(run_id="r", sums_sha256="0" * 64))
    assert gather(tmp_path).counts == {"passed": 1}


def test_broken_runs_are_shown_with_the_reason(tmp_path: Path) -> None:
    make_run(tmp_path, 1)
    (make_run(tmp_path, 2) / "run.json").unlink()
    (make_run(tmp_path, 3) / "run.json").write_text("{")
    with (make_run(tmp_path, 4) / "run.json").open("a") as content:
        content.write(" ")
    text = " ".join(rows_of(shown(tmp_path)))
    assert text.count("unreadable") == 2
    assert "half written: it has no run.json" in text
    assert "expected JSON" in text
    assert "edited: run.json is not the one that was sealed" in text
    assert summary(gather(tmp_path)) == "1 run: 1 passed; not counted: 1 edited, 2 unreadable"


class Checker(HTMLParser):
    """What a page refers to, and its header cells without scope."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.scopeless = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.scopeless += tag == "th" and "scope" not in found
        self.links += [value for name in ("src", "href") if (value := found.get(name) or "")]


def test_the_page_loads_nothing_and_links_only_runs_beside_it(tmp_path: Path) -> None:
    run = make_run(tmp_path / "cpu-demo", failed="build", log=KILLED)
    make_run(tmp_path / "cpu-demo", 1)
    text = shown(tmp_path)
    checker = Checker()
    checker.feed(text)
    assert checker.scopeless == 0
    assert f"cpu-demo/{run.name}/index.html" in checker.links
    assert all(link.startswith("#") or (tmp_path / link).is_file() for link in checker.links)
    assert not re.search(r"https?://|@import|url\(", text)
    script = text.split("<script>")[1].split("</script>")[0].strip().splitlines()
    assert len(script) <= 25
    elsewhere = page(gather(tmp_path), tmp_path / "out" / "index.html")
    assert "index.html" not in elsewhere


def test_names_from_records_are_text_and_no_markup(tmp_path: Path) -> None:
    bad = "<script>alert(1)</script>"
    make_run(tmp_path / "a b&c", target=bad, failed="build", message=bad)
    make_run(tmp_path, 1, facts={"build": {"version": bad}, "source_patch": {"recipe": bad}})
    assert bad not in shown(tmp_path)
    assert "a%20b%26c" in shown(tmp_path)


def test_secrets_and_the_home_folder_are_not_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "/home/somebody")
    told = "expected /home/somebody/x, found api_key=abcdefgh12345678"
    make_run(tmp_path, failed="build", message=told)
    index = gather(tmp_path)
    said = page(index, tmp_path / "i.html") + str(as_json(index)) + "\n".join(lines(index))
    assert "somebody" not in said
    assert "abcdefgh12345678" not in said
    assert "[redacted]" in said


def test_the_page_replaces_an_older_one_and_nothing_else(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    index = gather(tmp_path)
    output = write(index, tmp_path / "index.html")
    assert write(index, output).read_text().startswith("<!doctype html>")
    output.write_text("<p>mine")
    with pytest.raises(KeyelabError, match="expected no file or an older index"):
        write(index, output)
    assert output.read_text() == "<p>mine"
    with pytest.raises(KeyelabError, match="outside of run folders"):
        write(index, run / "logs" / "runs.html")
    with pytest.raises(KeyelabError, match="expected to write"):
        write(index, tmp_path / "index.html" / "x.html")


def test_an_empty_folder_is_said_to_be_empty(tmp_path: Path) -> None:
    with pytest.raises(KeyelabError, match="expected run folders at most 3 folders below"):
        gather(tmp_path)


def test_a_terminal_gets_the_newest_runs_and_the_counts(tmp_path: Path) -> None:
    for number in range(22):
        make_run(tmp_path, number)
    told = list(lines(gather(tmp_path)))
    assert told[0].split()[:5] == ["passed", "60", "s", "20", "t/s"]
    assert told[20] == "… and 2 older"
    assert told[-1] == "22 runs: 22 passed"


def test_hundreds_of_runs_take_little_time_and_memory(tmp_path: Path) -> None:
    checks = [{"name": f"check {n}", "status": "ok", "expected": "x" * 300} for n in range(10)]
    for number in range(300):
        facts = {"perf_analysis": {**FACTS["perf_analysis"], "tasks": checks * 5}}
        broken = {"failed": "build", "log": KILLED * 200} if number % 5 == 0 else {}
        make_run(tmp_path, number, facts=facts, **broken)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began = time.process_time()
    index = gather(tmp_path)
    text = page(index, tmp_path / "index.html")
    assert len(rows_of(text)) == 300
    assert time.process_time() - began < 6  # 0.7 s measured
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 << 10  # KiB
