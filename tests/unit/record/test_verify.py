"""What verify finds: any edit, any contradiction, and what it cannot compare."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from recorded_run import LOG, RUN_ID, make_run, reseal, rewrite

from keyelab.checks import Check
from keyelab.errors import KeyelabError
from keyelab.files import read_json, sha256_file, write_json
from keyelab.record import seal
from keyelab.record.verify import sentence, verify

STOCK = Path(__file__).parents[2] / "data" / "record" / "stock"


@pytest.fixture(scope="module")
def sealed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The record; what a test changes in it, it puts back."""
    root = tmp_path_factory.mktemp("checkout")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KEYELAB_HOME", str(root))
        yield make_run(root)


@pytest.fixture
def record(sealed: Path, tmp_path: Path) -> Path:
    """A copy of the record, of the same checkout."""
    return Path(shutil.copytree(sealed, tmp_path / "copy"))


def failed(folder: Path) -> dict[str, str]:
    return {i.name: i.found for i in verify(folder, quick=True) if i.status == "failed"}


def unknown(folder: Path) -> dict[str, str]:
    return {i.name: i.found for i in verify(folder, quick=True) if i.status == "unknown"}


def test_a_whole_record_is_ok_in_every_check(sealed: Path) -> None:
    results = verify(sealed)
    assert {item.status for item in results} == {"ok"}
    assert len(results) == 19
    assert sentence(results) == "verified: a run that passed, 19 of 19 checks ok"


def files() -> list[str]:
    """All files of the record, which has the same in each checkout."""
    stems = ["01_env_check", "02_model_fetch", "03_header_fixes", "04_source_patch"]
    stems += ["05_build", "06_serve", "07_video_test", "08_perf_analysis"]
    pages = [f"{stem}.{ending}" for stem in stems for ending in ("ipynb", "html")]
    facts = [f"facts/{stem[3:]}.json" for stem in stems]
    diffs = ["01-rule-1", "02-rule-2", "03-rule-3", "header-a-all", "header-z-any"]
    patches = [*(f"patches/{name}.diff" for name in diffs), "patches/series.mbox"]
    rest = ["run.json", "index.html", "env/pip-freeze.txt", "logs/05_build.log", LOG]
    return sorted([*pages, *facts, *patches, *rest, "plots/08_perf_analysis-load.png", seal.SUMS])


def test_the_files_that_are_edited_below_are_all_there_are(sealed: Path) -> None:
    assert files() == sorted([*seal.listed(sealed), seal.SUMS])


@settings(max_examples=250, deadline=None)
@given(
    name=st.sampled_from(files()),
    place=st.floats(0, 1, exclude_max=True),
    how=st.sampled_from(["change", "delete", "insert"]),
    byte=st.integers(1, 255),
)
def test_any_single_byte_edit_of_any_file_is_found_and_the_file_named(
    sealed: Path, name: str, place: float, how: str, byte: int
) -> None:
    path = sealed / name
    before = path.read_bytes()
    at = int(place * len(before))
    head, old, tail = before[:at], before[at : at + 1], before[at + 1 :]
    changed = {"change": bytes([old[0] ^ byte]), "delete": b"", "insert": bytes([byte]) + old}
    try:
        path.write_bytes(head + changed[how] + tail)
        assert name in "\n".join(seal.edits(sealed))
    finally:
        path.write_bytes(before)
    assert seal.edits(sealed) == []


def added(path: Path) -> None:
    path.with_name(f"{path.name}.new").write_text("x")


def moved(path: Path) -> None:
    path.rename(path.with_name(f"{path.name}.old"))


def linked(path: Path) -> None:
    twin = shutil.copy(path, path.with_name(f"{path.name}.twin"))
    path.unlink()
    path.symlink_to(twin)


def piped(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def swallowed(path: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize(
    "edit", [added, moved, Path.unlink, linked, piped, swallowed], ids=lambda e: e.__name__
)
def test_a_file_that_is_added_gone_renamed_or_something_else_is_named(
    record: Path, tmp_path: Path, edit: Callable[[Path], object]
) -> None:
    for name in files():
        path = record / name
        kept = shutil.copy(path, tmp_path / "kept")
        edit(path)
        said = "\n".join(seal.edits(record))
        assert name in said
        for other in path.parent.glob(f"{path.name}.*"):
            if name != seal.SUMS or edit is added:
                assert f"{name}{other.suffix}: added after the run" in said
            other.unlink()
        if edit is swallowed:
            path.rmdir()
        path.unlink(missing_ok=True)
        shutil.move(kept, path)
        assert seal.edits(record) == []


@pytest.mark.parametrize(
    ("edit", "found"),
    [
        (lambda f: (f / "approved").mkdir(), "approved/: an empty folder"),
        (lambda f: (f / "logs" / "deep").mkdir(), "logs/deep/: an empty folder"),
        (lambda f: (f / "logs" / seal.SUMS).write_text(""), f"logs/{seal.SUMS}: added after"),
        (lambda f: (f / "LATEST").write_text(RUN_ID), "LATEST: added after the run"),
        (lambda f: (f / "more").symlink_to(f / "logs"), "more: a symbolic link"),
        (lambda f: (f / "gone").symlink_to("nowhere"), "gone: a symbolic link"),
        (lambda f: (f / seal.SIGNATURE).symlink_to("nowhere"), f"{seal.SIGNATURE}: a symbolic"),
        (lambda f: (f / seal.SUMS).write_bytes(b"\xff\x00"), f"{seal.SUMS}: content changed"),
        (lambda f: (f / seal.SUMS).write_text(""), "run.json: added after the run"),
    ],
)
def test_what_is_no_file_of_a_run_is_named_too(
    record: Path, edit: Callable[[Path], object], found: str
) -> None:
    edit(record)
    assert found in "\n".join(seal.edits(record))


def test_an_empty_folder_that_a_phase_made_for_nothing_is_no_edit(record: Path) -> None:
    (record / "headers").mkdir()
    assert seal.edits(record) == []


@pytest.mark.parametrize("case", ["killed", "timeout", "interrupted", "terminated"])
@pytest.mark.parametrize("lie", ["as it is", "with an outcome"])
def test_what_stock_papermill_calls_completed_is_not_taken_for_it(
    record: Path, case: str, lie: str
) -> None:
    """Real outputs of papermill 2.7.0: a kernel killed, a cell out of time, SIGINT, SIGTERM."""
    notebook = read_json(STOCK / f"{case}.ipynb")
    states = [cell["metadata"]["papermill"]["status"] for cell in notebook["cells"]]
    assert states[:3] == ["completed"] * 3
    assert states[3] == ("running" if case == "terminated" else "completed")
    assert not notebook["metadata"]["papermill"]["exception"]
    if lie == "with an outcome":
        notebook["metadata"]["keyelab"] = {"schema": 1, "outcome": "completed", "reason": ""}
    write_json(record / "01_env_check.ipynb", notebook)
    reseal(record)
    found = failed(record)["01_env_check"]
    assert "2 of 5 cells never finished" in found
    assert ("papermill says completed, but the kernel never answered" in found) == (
        case != "terminated"
    )
    assert ("its outcome is missing" in found) == (lie == "as it is")


@pytest.mark.parametrize("status", ["failed", "interrupted"])
def test_a_dead_cell_that_is_called_completed_is_found_in_a_failed_phase_too(
    record: Path, status: str
) -> None:
    shutil.copy(STOCK / "killed.ipynb", record / "01_env_check.ipynb")

    def own(run: Any) -> None:
        run["phases"][0]["status"] = status

    rewrite(record, "run.json", own)
    assert "the kernel never answered" in failed(record)["01_env_check"]


def phase(number: int, **values: Any) -> Callable[[Any], None]:
    return lambda run: run["phases"][number].update(values)


def in_cell(number: int, edit: Callable[[Any], object]) -> Callable[[Any], object]:
    return lambda notebook: edit(notebook["cells"][number])


def forged(value: str, name: str) -> Callable[[Any], None]:
    def edit(run: Any) -> None:
        run["phases"][4]["parameters"][name]["value"] = value

    return edit


@pytest.mark.parametrize(
    ("name", "edit", "check", "found"),
    [
        ("run.json", lambda run: run.update(status="warned"), "overall status", "warned"),
        ("run.json", lambda run: run.update(duration_s=8.0), "record agrees", "it took 8.0 s"),
        ("run.json", lambda run: run["phases"].pop(), "record agrees", "its phases are"),
        ("run.json", lambda run: run["phases"].reverse(), "record agrees", "its phases are"),
        (
            "run.json",
            lambda run: run["phases"].append({**run["phases"][0], "phase": "extra"}),
            "record agrees",
            "extra, not",
        ),
        (
            "run.json",
            lambda run: run.update(python_packages_sha256="0" * 64),
            "record agrees",
            "env/pip-freeze.txt is not",
        ),
        ("run.json", lambda run: run.update(run_id="other"), "05_build", "in the run folder"),
        (
            "run.json",
            lambda run: run["growing"].update({"index.html": {"size_bytes": 0, "sha256": "0"}}),
            "record agrees",
            "index.html is no log of a server",
        ),
        ("run.json", phase(4, status="warned"), "05_build", "it nowhere says 05_build: warned"),
        ("run.json", phase(4, status="failed"), "05_build", "no cell failed"),
        ("run.json", phase(4, status="failed"), "record agrees", "build failed without a failure"),
        ("run.json", phase(4, status="not run", started=None), "record agrees", "but there is"),
        ("run.json", phase(4, duration_s=40.0), "05_build", "run.json says it took 40.0 s"),
        ("run.json", phase(4, started="2026-11-30T12:01:00Z"), "05_build", "says it started at"),
        ("run.json", phase(4, started="2026-11-29T12:00:00Z"), "record agrees", "outside of"),
        ("run.json", phase(4, notebook="01_env_check.ipynb"), "record agrees", "is named 01_env"),
        ("run.json", phase(4, notebook_sha256="0" * 64), "notebook sources", "its digest is"),
        ("run.json", phase(4, facts={"binaries": {}}), "05_build", "differ from run.json: facts"),
        ("run.json", phase(4, checks=[]), "05_build", "facts differ from run.json: checks"),
        ("run.json", phase(4, reused_from="other"), "05_build", "it was made in the run folder"),
        ("run.json", forged("elsewhere", "workdir"), "05_build", "from run.json: workdir"),
        ("run.json", forged("hip", "backend"), "05_build", "from run.json: backend"),
        ("facts/build.json", lambda left: left.update(facts={}), "05_build", "facts differ"),
        ("facts/build.json", lambda left: left.update(duration_s=60), "05_build", "longer than"),
        ("facts/build.json", lambda left: left.clear(), "05_build", "facts differ"),
        ("05_build.ipynb", lambda book: book["cells"].pop(), "notebook sources", "was removed"),
        (
            "05_build.ipynb",
            in_cell(3, lambda cell: cell.update(source="facts = better()")),
            "notebook sources",
            "05_build: cell do is not the source's",
        ),
        (
            "05_build.ipynb",
            in_cell(0, lambda cell: cell.update(source="# proven")),
            "notebook sources",
            "05_build: cell goal is not the source's",
        ),
        (
            "05_build.ipynb",
            in_cell(2, lambda cell: cell.update(source="print('all is well')")),
            "05_build",
            "its cell of injected parameters",
        ),
        (
            "05_build.ipynb",
            in_cell(2, lambda cell: cell.update(source="workdir = 'other'")),
            "05_build",
            "its cell of injected parameters",
        ),
        (
            "05_build.ipynb",
            lambda book: book["cells"].append(
                {**book["cells"][2], "source": "print('more')", "id": "more"}
            ),
            "05_build",
            "its cell of injected parameters",
        ),
        (
            "05_build.ipynb",
            lambda book: book["metadata"]["papermill"]["parameters"].update(workdir="other"),
            "05_build",
            "parameters differ from run.json: workdir",
        ),
        (
            "05_build.ipynb",
            lambda book: book["metadata"]["keyelab"].update(outcome="failed"),
            "05_build",
            "its outcome is failed, run.json says passed",
        ),
        (
            "05_build.ipynb",
            lambda book: book["metadata"].pop("keyelab"),
            "05_build",
            "its outcome is missing",
        ),
        (
            "05_build.ipynb",
            lambda book: book["metadata"]["papermill"].update(exception=True),
            "05_build",
            "papermill's exception is True",
        ),
        (
            "05_build.ipynb",
            in_cell(3, lambda cell: cell["metadata"]["execution"].clear()),
            "05_build",
            "cell do: papermill says completed, but the kernel never answered",
        ),
        (
            "05_build.ipynb",
            in_cell(3, lambda cell: cell["metadata"]["papermill"].update(status="pending")),
            "05_build",
            "cell do: papermill says pending, but it ran",
        ),
        (
            "05_build.ipynb",
            in_cell(3, lambda cell: cell["metadata"].pop("papermill")),
            "05_build",
            "cell do: papermill says None",
        ),
        (
            "05_build.ipynb",
            in_cell(3, lambda cell: cell["outputs"].append({"output_type": "error"})),
            "05_build",
            "cell do: papermill says completed, but it shows an error",
        ),
        (
            "05_build.ipynb",
            in_cell(
                3,
                lambda cell: cell["metadata"]["execution"].update(
                    {"shell.execute_reply": "2026-11-30T13:00:00Z"}
                ),
            ),
            "05_build",
            "cell do: its times are not in order",
        ),
        (
            "05_build.ipynb",
            lambda book: book["metadata"]["papermill"].update(duration=80.0),
            "05_build",
            "the notebook's times are not those of its cells",
        ),
        (
            "05_build.ipynb",
            in_cell(4, lambda cell: cell["outputs"].clear()),
            "05_build",
            "it nowhere says 05_build: passed",
        ),
    ],
)  # fmt: skip
def test_a_contradiction_is_found_when_the_sums_fit(
    record: Path, name: str, edit: Callable[[Any], object], check: str, found: str
) -> None:
    rewrite(record, name, edit)
    wrong = failed(record)
    assert "files as sealed" not in wrong
    assert found in "; ".join(said for name, said in wrong.items() if name.startswith(check))


def test_a_check_forged_in_run_json_and_facts_is_not_what_the_notebook_shows(record: Path) -> None:
    def forge(content: Any) -> None:
        entry = content["phases"][4] if "phases" in content else content
        entry["checks"][0]["found"] = "done better"

    rewrite(record, "run.json", forge)
    rewrite(record, "facts/build.json", forge)
    assert failed(record) == {
        "05_build": "it does not show the check 'build did it' as run.json does"
    }


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"cells": 1}', '{"cells": [{}]}', "\x00"])
def test_a_notebook_that_is_none_fails_its_phase(record: Path, text: str) -> None:
    (record / "05_build.ipynb").write_text(text)
    reseal(record)
    assert "not to be read as keyelab wrote it" in failed(record)["05_build"]


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"status": 1}'])
def test_facts_that_are_none_fail_their_phase(record: Path, text: str) -> None:
    (record / "facts" / "build.json").write_text(text)
    reseal(record)
    assert "05_build" in failed(record)


@pytest.mark.parametrize(
    ("make", "sentence", "hint"),
    [
        (lambda f: f / "nowhere", "found no such folder", "records/<target>/"),
        (lambda f: f / "logs", "found none: this is no run record", "records/<target>/"),
        (lambda f: f / "run.json", "found a file", "unpack it first"),
        (lambda f: damaged(f, "{"), "expected JSON in", ""),
        (lambda f: damaged(f, "[]"), "expected a keyelab run record", ""),
        (lambda f: damaged(f, "\x00"), "expected JSON in", ""),
        (lambda f: damaged(f, '{"schema_version": 1}'), "found run_id: Field required", ""),
        (lambda f: damaged(f, '{"schema_version": 2}'), "found 2: a newer keyelab", "git pull"),
    ],
)
def test_what_is_no_record_of_this_keyelab_is_one_error(
    record: Path, make: Callable[[Path], Path], sentence: str, hint: str
) -> None:
    with pytest.raises(KeyelabError, match=re.escape(sentence)) as told:
        verify(make(record))
    assert hint in told.value.hint
    assert "\n" not in told.value.message


def damaged(folder: Path, text: str) -> Path:
    (folder / "run.json").write_text(text)
    return folder


def test_a_run_that_resumed_from_another_verifies(record: Path) -> None:
    """Its first phases were made in the other's folder, before it began."""

    def resumed(run: Any) -> None:
        run.update(run_id="20261201T000000Z-00000000", resumes=RUN_ID)
        run.update(started="2026-12-01T00:00:00Z", finished="2026-12-01T00:01:20Z")
        for entry in run["phases"]:
            entry["reused_from"] = RUN_ID

    rewrite(record, "run.json", resumed)
    assert failed(record) == {}
    rewrite(record, "run.json", phase(0, reused_from=""))
    assert "env_check started at" in failed(record)["record agrees with itself"]


def unended(notebook: Any) -> None:
    del notebook["metadata"]["keyelab"]
    notebook["metadata"]["papermill"].update(end_time=None, duration=None)


def test_the_last_notebook_of_a_run_that_was_broken_off_may_lack_its_end(record: Path) -> None:
    """Killed after the last answer of the kernel, it is complete; closed, the run says so."""
    rewrite(record, "08_perf_analysis.ipynb", unended)
    found = failed(record)["08_perf_analysis"]
    assert "its outcome is missing" in found
    assert "papermill never ended it" in found
    closed = {"status": "interrupted", "closed": "2026-11-30T13:00:00Z"}
    rewrite(record, "run.json", lambda run: run.update(closed))
    assert failed(record) == {}
    drop = in_cell(3, lambda cell: cell["metadata"]["execution"].clear())
    rewrite(record, "08_perf_analysis.ipynb", drop)
    assert "1 of 4 cells never finished" in failed(record)["08_perf_analysis"]


def test_a_shared_copy_verifies_and_its_own_texts_prove_no_edit(record: Path) -> None:
    def shared(run: Any) -> None:
        run["original"] = {"run_id": RUN_ID, "sums_sha256": "0" * 64}

    rewrite(record, "run.json", shared)
    assert failed(record) == {}
    rewrite(record, "05_build.ipynb", in_cell(0, lambda cell: cell.update(source="# host-a")))
    assert failed(record) == {}
    assert "cell goal is not the source's" in unknown(record)["notebook sources"]


def test_quick_leaves_unknown_what_is_outside(sealed: Path) -> None:
    skipped = unknown(sealed)
    assert skipped["binaries"] == "2 files skipped by --quick"
    groups = {"model files", "toolkit headers", "binaries", "video"}
    assert set(skipped) == groups | {"source patches", "header patches"}
    assert failed(sealed) == {}
    assert "unknown: source patches, " in sentence(verify(sealed, quick=True))


def test_a_verdict_that_failed_names_what_did() -> None:
    results = [Check(name="one", status="ok"), Check(name="two", status="failed")]
    assert sentence(results) == "not verified: 1 of 2 checks failed: two"


def test_verify_changes_nothing(record: Path) -> None:
    before = {name: sha256_file(path) for name, path in seal.listed(record).items()}
    verify(record)
    assert {name: sha256_file(path) for name, path in seal.listed(record).items()} == before
    assert json.loads((record / "run.json").read_text())["run_id"] == RUN_ID
