"""Runs that were broken off: found, closed as what they were, and gone on from by a new run."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import signal
import tempfile
from pathlib import Path
from typing import Any

import pytest
from holding import other_holder

from keyelab import pipeline
from keyelab import resume as resuming
from keyelab.cli import cli
from keyelab.errors import KeyelabError, UsageError
from keyelab.files import located, write_text
from keyelab.record import interrupted, scratch, seal
from keyelab.record import run as records
from keyelab.record.execute import Executed
from keyelab.record.run import NEWEST
from keyelab.record.verify import verify

OF_THE_RUN = {"files as sealed", "run ended", "overall status", "record agrees with itself"}


class Killed(BaseException):
    """Stands for SIGKILL: nothing of the run goes on."""


class Runs:
    """Runs whose phases take no time; the one in `broken` is broken off, and leaves `cells`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.broken = ""
        self.error: BaseException = Killed()
        self.cells: list[str] = []
        self.ran: list[str] = []
        self.said: list[str] = []
        monkeypatch.setattr(pipeline, "execute_phase", self.execute)
        sealing = pipeline._seal
        monkeypatch.setattr(
            pipeline, "_seal", lambda *given: None if self.killed else sealing(*given)
        )

    @property
    def killed(self) -> bool:
        return bool(self.broken) and isinstance(self.error, Killed)

    def execute(self, phase: str, folder: Path, values: dict[str, Any]) -> Executed:
        self.ran.append(phase)
        if phase == self.broken:
            leave(folder, phase, values, self.cells)
            raise self.error
        leave(folder, phase, values, ["completed"])
        return Executed("passed", 0.1, facts={"n": phase})

    def go(self, *words: str, broken: str = "", cells: list[str] | None = None) -> Path:
        """Start a run with the command's words; returns its folder."""
        self.broken, self.cells, self.ran, self.said = broken, cells or [], [], []
        named = dict(zip(words[::2], words[1::2], strict=True))
        settings = [named["--set"]] if "--set" in named else []
        todo = pipeline.plan(
            "cpu-demo", named.get("--from"), named.get("--to"), resuming.overrides(settings)
        )
        with contextlib.suppress(Killed):
            pipeline.run(todo, ["keyelab", "run", *words], self.said.append)
        self.broken = ""
        return self.folder()

    def folder(self) -> Path:
        """The folder of the run that was begun last."""
        (line,) = [line for line in self.said if line.startswith("run ")]
        return located(line.removeprefix("run "))

    def resume(self, named: str = NEWEST, *settings: str) -> Path:
        """Go on; returns the new run's folder."""
        self.ran, self.said = [], []
        folder, code = resuming.resume(named, "cpu-demo", settings, self.said.append)
        assert code == 0
        return folder


def leave(folder: Path, phase: str, values: dict[str, Any], cells: list[str]) -> None:
    """Write what a notebook whose cells are in these states leaves; its facts with the last."""
    if not cells:
        return
    notebook = folder / f"{records.stem(phase)}.ipynb"
    given = {name: value for name, value in values.items() if name != "run_dir"}
    written = [
        {
            "cell_type": "code",
            "id": f"c{index}",
            "source": "1",
            "execution_count": 1,
            "outputs": [{"output_type": "error", "ename": "E", "evalue": "no", "traceback": []}]
            if state == "failed"
            else [],
            "metadata": {
                "papermill": {"status": state},
                "execution": {"shell.execute_reply": "t"} if state != "running" else {},
            },
        }
        for index, state in enumerate(cells)
    ]
    metadata = {"papermill": {"parameters": given}}
    write_text(
        notebook,
        json.dumps({"cells": written, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}),
    )
    if cells[-1] == "completed":
        facts = {"status": "passed", "reason": "", "duration_s": 0.2, "facts": {"n": phase}}
        write_text(folder / "facts" / f"{phase}.json", json.dumps({**facts, "checks": []}))


def statuses(folder: Path) -> list[str]:
    return [phase.status for phase in records.load(folder).phases]


def contradictions(folder: Path) -> list[str]:
    """What `keyelab verify` says, but for the notebooks, which are none."""
    found = {item.name for item in verify(folder) if item.status == "failed"}
    return sorted(found & OF_THE_RUN)


@pytest.fixture
def runs(checkout: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Runs:
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    monkeypatch.setattr("keyelab.record.page.write_pages", lambda run, folder: None)
    monkeypatch.setattr(records, "tool", records.Tool)
    return Runs(monkeypatch)


@pytest.mark.parametrize(
    ("cells", "told"),
    [
        ([], "interrupted"),
        (["completed", "running"], "interrupted"),
        (["completed", "failed"], "interrupted"),
        (["completed", "completed"], "passed"),
    ],
    ids=["no notebook", "a cell runs", "a cell failed", "all cells done"],
)
def test_a_killed_run_is_closed_as_what_its_notebooks_show(
    runs: Runs, cells: list[str], told: str
) -> None:
    killed = runs.go("--to", "build", broken="build", cells=cells)
    assert records.load(killed).status == "running"
    assert records.load(killed).phases[4].started
    resuming.close(NEWEST, "cpu-demo", runs.said.append)
    run = records.load(killed)
    assert (run.status, run.phases[4].status) == ("interrupted", told)
    assert run.closed
    assert run.finished
    assert f"resume: keyelab run --resume {killed.name}" in pipeline.summary(killed)
    assert statuses(killed)[5:] == ["not run"] * 3
    assert contradictions(killed) == []
    assert seal.edits(killed) == []


def test_a_killed_run_is_gone_on_from_with_its_own_settings(runs: Runs) -> None:
    killed = runs.go("--to", "build", "--set", "build.jobs=3", broken="source_patch")
    after = runs.resume()
    assert runs.ran == ["source_patch", "build"]
    assert records.load(killed).status == "interrupted"
    run = records.load(after)
    assert (run.status, run.resumes) == ("passed", killed.name)
    assert [p.reused_from for p in run.phases[:4]] == [killed.name] * 3 + [""]
    assert run.phases[4].parameters["jobs"] == {"value": 3, "source": "override"}
    assert shlex.join(run.command) == (
        "keyelab run --target cpu-demo --from source_patch --to build --set build.jobs=3"
    )
    assert run.phases[5].reason == "not asked for"
    assert contradictions(after) == []


def test_a_run_that_failed_is_gone_on_from_and_a_setting_may_be_added(runs: Runs) -> None:
    runs.error = KeyboardInterrupt()
    stopped = runs.go("--to", "build", broken="build", cells=["running"])
    assert records.load(stopped).status == "interrupted"
    assert statuses(stopped)[4] == "interrupted", "not one that has not run"
    assert contradictions(stopped) == []
    after = runs.resume(stopped.name, "build.jobs=5")
    assert runs.ran == ["build"]
    assert records.load(after).phases[4].parameters["jobs"]["value"] == 5


def test_a_phase_whose_inputs_changed_runs_again_and_it_is_told_why(
    runs: Runs, checkout: Any
) -> None:
    runs.go("--to", "build", broken="build")
    checkout.params("header_fixes", "headers_root: elsewhere\n")
    runs.resume()
    assert runs.ran == ["header_fixes", "source_patch", "build"]
    assert any("its parameters have changed: headers_root" in line for line in runs.said)


def test_a_changed_notebook_is_named(runs: Runs, checkout: Any) -> None:
    runs.go("--to", "build", broken="build")
    checkout.write("model_fetch", "step.say('another')")
    runs.resume()
    assert runs.ran[0] == "model_fetch"
    assert any("from 02_model_fetch: its notebook has changed" in line for line in runs.said)


def test_a_run_killed_while_it_was_sealed_has_nothing_left_to_do(runs: Runs) -> None:
    killed = runs.go("--to", "build", broken="build", cells=["completed"])
    after = runs.resume()
    assert runs.ran == []
    assert statuses(after)[:5] == ["passed"] * 5
    assert records.load(after).status == "passed"
    assert statuses(killed)[:5] == ["passed"] * 5
    assert records.load(killed).status == "interrupted"


@pytest.mark.parametrize(
    ("phase", "sweep", "first"),
    [
        ("video_test", "false", "serve"),
        ("perf_analysis", "true", "serve"),
        ("perf_analysis", "false", "perf_analysis"),
    ],
)
def test_a_phase_whose_server_is_gone_is_resumed_with_a_new_one(
    runs: Runs, monkeypatch: pytest.MonkeyPatch, phase: str, sweep: str, first: str
) -> None:
    def gone(*given: Any) -> None:
        raise KeyelabError("expected the server to run, found it stopped")

    monkeypatch.setattr("keyelab.serving.run.require", gone)
    runs.go("--set", f"perf_analysis.sweep={sweep}", broken=phase)
    runs.resume()
    assert runs.ran[0] == first
    if first == "serve":
        assert any("from 06_serve: its server is gone" in line for line in runs.said)


def test_a_run_is_gone_on_from_once(runs: Runs) -> None:
    runs.go("--to", "build", broken="build")
    runs.resume()
    with pytest.raises(KeyelabError, match="that did not end well, found none"):
        runs.resume()


def test_one_that_was_broken_off_twice_is_gone_on_from_at_its_second_end(runs: Runs) -> None:
    runs.go(broken="build")
    runs.broken = "serve"
    with pytest.raises(Killed):
        runs.resume()
    runs.broken = ""
    second = runs.folder()
    third = runs.resume()
    assert runs.ran[0] == "serve"
    assert records.load(third).resumes == second.name


def test_a_run_that_goes_on_is_refused_with_its_pid(
    runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    going = runs.go(broken="build")
    monkeypatch.setattr(interrupted, "_KERNEL_S", 0.1)
    with other_holder(going) as pid:
        assert interrupted.state(going, records.load(going)) == "goes on"
        with pytest.raises(KeyelabError, match=rf"goes on \(pid {pid}\)"):
            runs.resume()
        with pytest.raises(KeyelabError, match=rf"goes on \(pid {pid}\)") as told:
            runs.resume(going.name)
        assert f"kill {pid}" in told.value.hint
        assert list(resuming.lines(["cpu-demo"])) == []
    assert records.load(going).status == "running"


def test_a_fresh_run_of_another_machine_is_left_alone_unless_it_is_named(
    runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    far = runs.go("--to", "build", broken="build")
    monkeypatch.setattr(records, "boot", lambda: "another")
    (told,) = resuming.lines(["cpu-demo"])
    assert told["why"].startswith("begun on another machine")
    with pytest.raises(KeyelabError, match="begun on another machine") as told:
        runs.resume()
    assert "keyelab run --resume" in told.value.hint
    old = (far / "run.json").stat().st_mtime - interrupted.ELSEWHERE_S
    for path in far.rglob("*"):
        os.utime(path, (old, old))
    runs.resume()
    assert runs.ran == ["build"]


def test_a_run_that_ended_well_is_not_gone_on_from(runs: Runs) -> None:
    good = runs.go("--to", "env_check")
    with pytest.raises(KeyelabError, match=r"did not end well, found .*: passed"):
        runs.resume(good.name)
    with pytest.raises(KeyelabError, match="expected a run at nowhere, found none"):
        runs.resume("nowhere")


def test_closing_does_not_make_an_older_run_the_newest(runs: Runs) -> None:
    old = runs.go(broken="build")
    later = old.parent / ("2999" + old.name[4:])
    runs.go("--to", "env_check").rename(later)
    records.point_latest(later)
    resuming.close(old.name, "cpu-demo", runs.said.append)
    assert records.latest("cpu-demo") == later


def test_what_a_kill_left_half_written_goes_with_closing(runs: Runs) -> None:
    killed = runs.go(broken="build")
    for left in (killed / ".run.json.abcd1234", killed / "facts" / ".build.json.ab_d1234"):
        left.write_text("{")
    scratch.path(killed).mkdir(exist_ok=True)
    resuming.close(NEWEST, "cpu-demo", runs.said.append)
    assert not list(killed.rglob(".*"))
    assert not scratch.path(killed).exists()
    assert seal.edits(killed) == []


def test_status_names_a_broken_off_run_until_it_is_closed(runs: Runs) -> None:
    killed = runs.go(broken="build")
    (told,) = resuming.lines(["cpu-demo"])
    assert told["phase"] == "build"
    assert told["resume"] == f"keyelab run --resume records/cpu-demo/{killed.name}"
    resuming.close(NEWEST, "cpu-demo", runs.said.append)
    assert list(resuming.lines(["cpu-demo"])) == []


def test_a_setting_that_was_not_recorded_is_asked_for_again(runs: Runs) -> None:
    runs.go("--set", "source_patch.git_url=https://u:secret1@git.example/x", broken="build")
    with pytest.raises(KeyelabError, match="one that was not recorded"):
        runs.resume()


def test_a_second_interrupt_does_not_keep_a_record_from_being_sealed(
    runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    sealing = seal.seal

    def disturbed(*given: Any) -> str:
        os.kill(os.getpid(), signal.SIGINT)
        return sealing(*given)

    monkeypatch.setattr(seal, "seal", disturbed)
    folder = runs.go("--to", "env_check")
    assert records.load(folder).status == "passed"
    assert seal.edits(folder) == []


@pytest.mark.parametrize(
    ("step", "status"), [("page.write_pages", "interrupted"), ("seal.write_text", "passed")]
)
def test_a_run_that_could_not_be_sealed_claims_nothing_before_its_pages_are_there(
    runs: Runs, monkeypatch: pytest.MonkeyPatch, step: str, status: str
) -> None:
    def full(*given: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(seal, "freeze", lambda folder: "")
    with monkeypatch.context() as disk:
        disk.setattr(f"keyelab.record.{step}", full)
        with pytest.raises(KeyelabError, match="was never sealed"):
            runs.go("--to", "env_check")
    folder = runs.folder()
    before = "running" if status == "interrupted" else status
    assert records.load(folder).status == before
    resuming.close(NEWEST, "cpu-demo", runs.said.append)
    assert records.load(folder).status == status
    assert contradictions(folder) == []


def test_settings_are_read_by_phase() -> None:
    assert resuming.overrides(["build.jobs=2", "build.reuse=false"]) == {
        "build": {"jobs": 2, "reuse": False}
    }
    with pytest.raises(UsageError):
        resuming.overrides(["jobs=2"])


@pytest.mark.parametrize(
    "fault", [OSError(30, "Read-only file system"), OSError(116, "Stale file handle")]
)
def test_records_that_cannot_be_written_are_one_sentence_and_no_run(
    runs: Runs, checkout: Any, monkeypatch: pytest.MonkeyPatch, fault: OSError
) -> None:
    def refuse(*given: Any) -> None:
        raise fault

    monkeypatch.setattr(records, "write_json", refuse)
    with pytest.raises(KeyelabError, match=f"expected to write .*{fault.strerror}") as told:
        runs.go()
    assert told.value.exit_code == 1
    assert "df -h" in told.value.hint
    assert not list((checkout.root / "records" / "cpu-demo").iterdir()), "nothing half-written"


def test_two_runs_begun_in_one_second_have_a_folder_each(runs: Runs) -> None:
    assert runs.go("--to", "env_check") != runs.go("--to", "env_check")


@pytest.mark.parametrize("words", [["--resume", "--from", "build"], ["--resume", "--close"]])
def test_a_resumed_run_has_its_own_phases(checkout: Any, words: list[str]) -> None:
    with pytest.raises(UsageError, match="expected --resume or --close alone"):
        cli.main(["run", *words], standalone_mode=False)


@pytest.mark.parametrize(
    ("words", "status"), [(["--close"], "interrupted"), (["--resume"], "passed")]
)
def test_the_command_takes_the_newest_or_the_named_run(
    runs: Runs, capsys: pytest.CaptureFixture[str], words: list[str], status: str
) -> None:
    killed = runs.go("--to", "build", broken="build")
    for named in ([], [killed.name]) if words == ["--close"] else ([f"records/{killed.name}"],):
        with pytest.raises(SystemExit) as ended:
            cli.main(["run", *words, *named], standalone_mode=False)
        assert ended.value.code == 0
        said = capsys.readouterr().out
        assert f": {status}\n" in said
        assert "did not end" not in said
    assert records.load(killed).status == "interrupted"
