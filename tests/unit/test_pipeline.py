"""Whole runs over notebooks that do next to nothing: order, outcome, resume, record."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from keyelab import pipeline
from keyelab.errors import KeyelabError, UsageError
from keyelab.record import run as records
from keyelab.record.verify import verify

ROOT = Path(__file__).parents[2]
SIGKILL = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"


def go(
    first: str | None = None,
    last: str | None = None,
    dry_run: bool = False,
    **overrides: dict[str, Any],
) -> tuple[Path, int]:
    todo = pipeline.plan("cpu-demo", first, last, overrides, dry_run)
    return pipeline.run(todo, ["keyelab", "run"], lambda line: None)


def statuses(folder: Path) -> list[str]:
    return [phase.status for phase in records.load(folder).phases]


def failed_checks(folder: Path) -> list[str]:
    return [item.name for item in verify(folder) if item.status == "failed"]


def test_a_good_run_passes_every_phase_and_verifies(checkout: Any) -> None:
    folder, code = go()
    assert code == 0
    assert statuses(folder) == ["passed"] * 8
    assert records.load(folder).status == "passed"
    assert failed_checks(folder) == []
    assert (folder.parent / "LATEST").read_text().strip() == folder.name


def test_a_failing_phase_stops_the_run_and_from_resumes_it(checkout: Any) -> None:
    checkout.write("build", "raise ValueError('no compiler')")
    broken, code = go()
    assert code == 1
    assert statuses(broken) == ["passed"] * 4 + ["failed"] + ["not run"] * 3
    assert records.resume_command(records.load(broken)) == "keyelab run --from build"
    failure = records.load(broken).phases[4].failure
    assert failure is not None
    assert failure.message == "ValueError: no compiler"
    assert failed_checks(broken) == []

    checkout.write("build", "step.say('mended')")
    mended, code = go("build")
    assert code == 0
    run = records.load(mended)
    assert run.resumes == broken.name
    assert [p.reused_from for p in run.phases[:5]] == [broken.name] * 4 + [""]
    assert statuses(mended) == ["passed"] * 8
    assert failed_checks(mended) == []


def test_a_kernel_killed_in_a_phase_exits_138_and_is_told_in_the_record(checkout: Any) -> None:
    checkout.write("serve", SIGKILL)
    folder, code = go("env_check", "video_test")
    assert code == 138
    run = records.load(folder)
    assert run.status == "failed"
    assert run.phases[5].failure is not None
    assert run.phases[5].failure.kind == "dead-kernel"
    assert run.phases[6].reason == "serve failed"
    assert "the kernel died" in (folder / "index.html").read_text()
    assert failed_checks(folder) == []


def test_a_failed_check_fails_the_phase_with_its_remedy(checkout: Any) -> None:
    checkout.write(
        "env_check", "step.check('disk', False, expected='9 GiB', found='1 GiB', remedy='df -h')"
    )
    folder, code = go(last="env_check")
    assert code == 1
    failure = records.load(folder).phases[0].failure
    assert failure is not None
    assert failure.kind == "check"
    assert "expected 9 GiB, found 1 GiB" in failure.message
    assert "df -h" in failure.message


def test_an_unknown_check_warns_and_never_passes(checkout: Any) -> None:
    checkout.write("env_check", "step.check('card', None)")
    folder, code = go(last="env_check")
    assert code == 0
    assert records.load(folder).status == "warned"


def test_a_changed_parameter_forbids_to_reuse_the_phase_it_belongs_to(checkout: Any) -> None:
    go(last="env_check")
    checkout.params("env_check", "min_disk_gib: 1.0\n")
    with pytest.raises(KeyelabError, match=r"env_check of .* no longer holds"):
        go("model_fetch")


SERVE = """
from keyelab.facts import ServeFacts
from keyelab.files import write_json
file = step.workdir / "servers" / "1.json"
Facts = lambda: ServeFacts(
    url="http://127.0.0.1:1", pid=1, state_file=str(file), log="", alias="", build_info="",
    model_path="", context_tokens=None, slots=None, ready_s=1.0, command="",
)
"""


def test_a_resumed_video_test_does_not_use_a_server_that_is_gone(checkout: Any) -> None:
    checkout.write("serve", SERVE)
    checkout.write("video_test", "raise ValueError('no answer')")
    broken, code = go()
    assert code == 1
    assert "resume: keyelab run --from serve" in pipeline.summary(broken)
    with pytest.raises(KeyelabError, match=r"server of 06_serve \(pid 1, .*found it stopped") as e:
        go("video_test")
    assert e.value.hint == "keyelab run --target cpu-demo --from serve"


def test_an_edited_record_is_not_resumed(checkout: Any) -> None:
    folder, _ = go(last="env_check")
    (folder / "index.html").write_text("edited")
    with pytest.raises(KeyelabError, match=r"index\.html: content changed"):
        go("model_fetch")


def test_resuming_without_an_earlier_run_says_what_to_type(checkout: Any) -> None:
    with pytest.raises(KeyelabError, match="found none") as caught:
        go("build")
    assert caught.value.hint == "keyelab run --target cpu-demo"
    assert not list((checkout.root / "records").glob("*/2*"))


def test_a_dry_run_skips_every_phase_and_is_no_pass(checkout: Any) -> None:
    folder, code = go(dry_run=True)
    assert code == 0
    run = records.load(folder)
    assert statuses(folder) == ["skipped"] * 8
    assert run.status == "warned"
    assert run.dry_run
    assert "nothing was done" in (folder / "index.html").read_text()


def test_a_dry_run_shows_the_later_plans_after_one_that_fails(checkout: Any) -> None:
    checkout.write("model_fetch", "raise ValueError('no client')")
    folder, code = go(dry_run=True)
    assert code == 1
    assert statuses(folder) == ["skipped", "failed"] + ["skipped"] * 6
    assert records.resume_command(records.load(folder)) == ""


def test_parameters_reach_the_notebook_with_their_source(checkout: Any) -> None:
    checkout.params("common", "workdir: elsewhere\n")
    checkout.params("build", "jobs: 3\n")
    checkout.write("build", "print(step.params.jobs, step.params.workdir, step.params.gpu_targets)")
    folder, code = go(last="build", build={"gpu_targets": "12e4567"})
    assert code == 0
    entry = records.load(folder).phases[4].parameters
    assert entry["jobs"] == {"value": 3, "source": "params/cpu-demo/build.yaml"}
    assert entry["workdir"]["source"] == "params/cpu-demo/common.yaml"
    assert entry["gpu_targets"] == {"value": "12e4567", "source": "override"}
    assert "3 elsewhere 12e4567" in (folder / "05_build.ipynb").read_text()
    assert failed_checks(folder) == []


def test_home_folders_are_not_recorded_and_the_record_still_agrees(
    checkout: Any, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    home = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("HOME", str(home))
    checkout.write("build", "step.say(f'{step.params.workdir}')")
    folder, _ = go(last="build", build={"workdir": f"{home}/models"})
    assert records.load(folder).phases[4].parameters["workdir"]["value"] == "~/models"
    assert f"{home}/" not in (folder / "05_build.ipynb").read_text()
    assert failed_checks(folder) == []


def test_phases_in_the_wrong_order_are_refused(checkout: Any) -> None:
    with pytest.raises(UsageError, match="--from before --to"):
        pipeline.plan("cpu-demo", "serve", "build", {})


@pytest.mark.parametrize(
    ("edit", "caught_by"),
    [
        ("output", ["files as sealed"]),
        ("status", ["files as sealed", "overall status"]),
        ("claim", ["files as sealed", "overall status", "05_build"]),
        ("extra", ["files as sealed", "05_build"]),
    ],
)
def test_verify_detects_edits_and_false_claims(
    checkout: Any, edit: str, caught_by: list[str]
) -> None:
    checkout.write("build", "raise ValueError('no')")
    folder, _ = go(last="build")
    run = json.loads((folder / "run.json").read_text())
    if edit == "output":
        page = folder / "05_build.ipynb"
        page.write_text(page.read_text().replace('"evalue": "no"', '"evalue": "so"'))
    elif edit == "extra":
        (folder / "facts" / "build.json").write_text("{}")
    else:
        if edit == "status":
            run["status"] = "passed"
        else:
            run["phases"][4].update(status="passed", failure=None)
        (folder / "run.json").write_text(json.dumps(run))
    assert failed_checks(folder) == caught_by


def test_a_run_that_was_killed_is_not_taken_for_a_finished_one(checkout: Any) -> None:
    folder, _ = go(last="env_check")
    run = json.loads((folder / "run.json").read_text())
    run["status"] = "running"
    (folder / "run.json").write_text(json.dumps(run))
    (folder / "SHA256SUMS").unlink()
    assert failed_checks(folder) == ["files as sealed", "run ended"]


def test_the_page_loads_nothing_and_runs_nothing(checkout: Any) -> None:
    folder, _ = go()
    for page in folder.glob("*.html"):
        text = page.read_text(encoding="utf-8")
        assert "<script" not in text
        assert 'src="http' not in text
        assert "<link" not in text
        assert "@import" not in text


def test_the_exported_schema_is_that_of_the_records(checkout: Any) -> None:
    exported = json.loads((ROOT / "docs" / "run.schema.json").read_text())
    assert exported == records.json_schema(), "make sync writes it anew"
    folder, _ = go(last="env_check")
    jsonschema.validate(json.loads((folder / "run.json").read_text()), exported)
