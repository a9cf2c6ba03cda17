"""Two records: what differs, what explains the outcome, and what is no difference."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from diffruns import FACTS, pair

from keyelab.files import shown
from keyelab.pipeline import NEEDS
from keyelab.record.comparison import text
from keyelab.record.diff import diff

Run = dict[str, Any]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty checkout."""
    for name in ("notebooks", "params"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("KEYELAB_HOME", str(tmp_path))
    return tmp_path


def told(home: Path, a: Run, b: Run) -> Run:
    return diff(*pair(home, a, b), NEEDS, lambda one, other: None)


def keys(differences: list[Run]) -> list[str]:
    return [one["key"] for one in differences]


def said(content: Run) -> str:
    return "\n".join(text.lines(content))


def test_equal_records_differ_in_nothing_and_every_topic_is_named(home: Path) -> None:
    content = told(home, {}, {"pid": 2, "started": "2026-02-02T00:00:00Z"})
    assert content["differs"] is False
    assert set(content["equal"]) == {
        "parameters", "keyelab", "host", "model", "source", "patches", "build", "server", "video",
        "answer",
    }  # fmt: skip
    assert [content[name] for name in ("causes", "unknown", "notebooks")] == [[], [], []]
    assert "every phase ended alike" in said(content)


def test_times_ports_and_readings_of_the_moment_are_no_difference(home: Path) -> None:
    card = {"name": "K100_AI", "arch": "gfx928", "memory_bytes": 2**36}
    runs = [
        {
            "parameters": {"serve.port": port},
            "facts": {
                "serve": {"port": port, "ready_s": ready, "url": f"http://127.0.0.1:{port}"},
                "env_check": {
                    "devices": [{**card, "temperature_c": ready, "busy": ready > 1}],
                    "memory_bytes": 2**34 + port,
                },
            },
        }
        for port, ready in ((8080, 1.0), (8081, 1.4))
    ]
    content = told(home, *runs)
    assert content["differs"] is False
    assert content["unknown"] == []


def test_a_failure_is_explained_by_its_nearest_input_and_parameters_come_first(home: Path) -> None:
    other = {
        "parameters": {
            "perf_analysis.sweep": True,
            "model_fetch.revision": "v2",
            "serve.context_tokens": 99_999,
            "video_test.max_frames": 3,
            "build.build_type": "Debug",
        },
        "facts": {"env_check": {"cpu": "CPU Y"}},
        "failed": "serve",
        "message": "out of memory",
    }
    content = told(home, {}, other)
    assert content["explained"] == "serve"
    assert keys(content["causes"]) == [
        "parameters.serve.context_tokens",  # its own
        "parameters.model_fetch.revision",  # of what it needs, in the pipeline's order
        "parameters.build.build_type",
        "host.CPU",
    ]
    assert keys(content["unrelated"]) == [
        "parameters.video_test.max_frames",
        "parameters.perf_analysis.sweep",
    ]
    assert content["failures"]["b"]["message"] == "out of memory"
    assert content["unknown"] == [], "what was not reached is not unknown"


def test_what_follows_from_a_recipe_is_told_under_it_step_by_step(home: Path) -> None:
    other = {
        "parameters": {"source_patch.recipe": "flags"},
        "facts": {
            "source_patch": {"recipe": "flags", "patches": [], "tree_sha256": "0" * 64},
            "build": {"key": "1" * 64, "binaries": {"llama-server": {"sha256": "2" * 64}}},
        },
    }
    content = told(home, {}, other)
    (recipe,) = content["causes"]
    chain = [recipe["key"]]
    while recipe["follows"]:
        (recipe,) = recipe["follows"]
        chain.append(recipe["key"])
    assert chain == [
        "parameters.source_patch.recipe", "patches.recipe", "patches.rules", "source.patched tree",
        "build.key", "build.binaries",
    ]  # fmt: skip


def test_another_tree_without_another_parameter_is_a_cause_itself(home: Path) -> None:
    moved = {"base_sha256": "0" * 64, "tree_sha256": "1" * 64}
    content = told(home, {}, {"facts": {"source_patch": moved}, "failed": "build"})
    (tree,) = content["causes"]
    assert tree["key"] == "source.tree"
    assert keys(tree["follows"]) == ["source.patched tree"]


def test_another_model_brings_its_own_facts_below_its_digest(home: Path) -> None:
    model = {"model": {"sha256": "7" * 64}, "architecture": "n", "quantization": "Q4_K"}
    content = told(home, {}, {"facts": {"model_fetch": model}})
    (digest,) = content["causes"]
    assert digest["key"] == "model.model"
    assert keys(digest["follows"]) == ["model.model type", "model.quantization"]
    assert "host" in content["equal"]


def test_another_host_is_told_with_its_parts(home: Path) -> None:
    host = {"os": "Linux 2", "kernel": "6.9", "cpu": "CPU Y", "cores": 4, "memory_bytes": 2**35}
    content = told(home, {}, {"facts": {"env_check": host}})
    assert keys(content["causes"]) == ["host.OS", "host.CPU", "host.memory"]
    assert "host: memory: 16.0 GiB -> 32.0 GiB" in said(content)


def test_another_machine_may_explain_every_phase_and_other_phases_do_not(home: Path) -> None:
    other = {
        "facts": {"env_check": {"cpu": "CPU Y"}},
        "parameters": {"env_check.cards": "0", "model_fetch.revision": "v2"},
        "failed": "model_fetch",
    }
    content = told(home, {}, other)
    assert keys(content["causes"]) == ["parameters.model_fetch.revision", "host.CPU"]
    assert keys(content["unrelated"]) == ["parameters.env_check.cards"]


def test_what_runs_have_of_their_own_makes_no_other_sentence(home: Path) -> None:
    message = "port {} of pid {} in /tmp/{} and records/{}: no answer"
    a = {"failed": "serve", "message": message.format(1, 2, "x", "20260101T000000Z-aaaaaaaa")}
    b = {"failed": "serve", "message": message.format(3, 4, "y", "20260102T000000Z-bbbbbbbb")}
    assert told(home, a, b)["differs"] is False


def test_what_follows_is_told_under_what_can_have_caused_it_alone(home: Path) -> None:
    other = {
        "parameters": {"video_test.prompt": "Which?", "video_test.max_frames": 1},
        "facts": {"video_test": {"frames": []}},
    }
    prompt, frames = told(home, {}, other)["causes"]
    assert (prompt["key"], prompt["follows"]) == ("parameters.video_test.prompt", [])
    assert keys(frames["follows"]) == ["video.frames"]


def test_a_failure_with_equal_inputs_says_that_nothing_recorded_differs(home: Path) -> None:
    content = told(home, {}, {"failed": "video_test"})
    assert content["differs"] is True
    assert content["causes"] == []
    assert "nothing that was recorded differs in what video_test got" in said(content)
    assert "log: records/cpu-demo/20260102T000000Z-bbbbbbbb/logs/x.log" in said(content)


def test_two_failures_of_one_phase_differ_by_their_sentence(home: Path) -> None:
    alike = told(home / "1", {"failed": "build"}, {"failed": "build"})
    other = told(home / "2", {"failed": "build"}, {"failed": "build", "message": "no space"})
    assert (alike["explained"], alike["differs"]) == (None, False)
    assert (other["explained"], other["differs"]) == ("build", True)
    assert [one["phase"] for one in other["outcomes"]] == ["build"]


def test_when_all_passed_what_only_steers_comes_last(home: Path) -> None:
    other = {"parameters": {"video_test.timeout_s": 9.0, "serve.threads": 4, "build.jobs": 3}}
    content = told(home, {}, other)
    assert keys(content["causes"]) == [
        "parameters.serve.threads", "parameters.video_test.timeout_s", "parameters.build.jobs",
    ]  # fmt: skip


def test_a_parameter_of_all_phases_is_told_once_with_its_sources(home: Path) -> None:
    other = {"parameters": {f"{phase}.backend": "hip" for phase in NEEDS}}
    content = told(home, {}, other)
    (backend,) = content["causes"]
    assert (backend["key"], backend["a"], backend["b"]) == ("parameters.backend", "cpu", "hip")
    assert backend["sources"] == ["default", "override"]
    assert "backend: cpu -> hip  (default and override)" in said(content)


def test_the_same_value_from_another_place_does_not_matter_and_is_told(home: Path) -> None:
    content = told(home, {}, {"parameters": {"serve.context_tokens": 4096}})
    assert content["differs"] is False
    assert keys(content["other_source"]) == ["parameters.serve.context_tokens"]
    assert "same value from another place: serve.context_tokens" in said(content)


def test_what_one_record_does_not_know_is_unknown_and_no_difference(home: Path) -> None:
    facts = {"serve": {"flash_attention": True}, "perf_analysis": {"decode_tps": None}}
    content = told(home, {}, {"facts": facts})
    assert content["differs"] is False
    assert keys(content["unknown"]) == ["server.flash attention"]
    assert "server" not in content["equal"]
    (decode,) = [one for one in content["numbers"] if one["name"] == "decode"]
    assert (decode["ratio"], decode["verdict"]) == (None, "unknown")


def test_changed_checks_explain_a_later_failure_and_else_are_results(home: Path) -> None:
    bad = {"checks": {"env_check.memory": "warned", "build.gate": "ok"}}
    good = {"checks": {"env_check.memory": "ok"}}
    assert keys(told(home / "1", good, bad)["results"]) == ["checks.env_check: memory"]
    content = told(home / "2", good, {**bad, "failed": "build"})
    assert keys(content["causes"]) == ["checks.env_check: memory"]


def test_another_answer_is_a_result(home: Path) -> None:
    content = told(home, {}, {"facts": {"video_test": {"answer": "a blue square"}}})
    assert content["differs"] is True
    assert keys(content["results"]) == ["answer.answer"]
    assert content["causes"] == []


def test_build_flags_are_told_one_by_one(home: Path) -> None:
    command = "cmake -DGGML_HIP=ON -DEXTRA=1 -DCMAKE_MAKE_PROGRAM=/other/ninja"
    content = told(home, {}, {"facts": {"build": {"command": command}}})
    assert keys(content["causes"]) == ["build.flags"]
    assert "GGML_HIP: OFF -> ON" in said(content)
    assert "EXTRA: — -> 1" in said(content)
    assert "MAKE_PROGRAM" not in said(content)


def test_the_diff_of_the_diffs_leaves_line_numbers_out(home: Path) -> None:
    a = {"diffs": {"01-norm": "@@ -1,2 +1,2 @@ f\n- a\n+ b\n", "02-softmax": "+ c\n"}}
    moved = {"diffs": {"03-norm": "@@ -9,2 +9,2 @@ g\n- a\n+ b\n", "02-softmax": "+ c\n"}}
    edited = {"diffs": {"01-norm": "@@ -1,2 +1,2 @@ f\n- a\n+ B\n", "02-softmax": "+ c\n"}}
    assert told(home / "1", a, moved)["patches"] == []
    content = told(home / "2", a, edited)
    (one,) = content["patches"]
    assert (one["name"], one["only"]) == ("norm", "")
    assert one["lines"][-2:] == ["-+ b", "++ B"]
    assert keys(content["causes"]) == ["patches.edit norm"]


def test_records_of_other_targets_and_schemas_are_compared(home: Path) -> None:
    other = {"schema_version": 9, "target": "k100ai", "from_the_future": {"x": 1}}
    content = told(home, {}, other)
    assert content["differs"] is False
    assert any("schema 9" in doubt for doubt in content["b"]["doubts"])
    assert "k100ai" in said(content)


def test_keyelab_comes_before_the_rest_only_when_it_changed_the_notebook(home: Path) -> None:
    new = {"version": "0.2.0", "commit": "2" * 40}
    other = {"tool": new, "facts": {"env_check": {"cpu": "CPU Y"}}, "failed": "serve"}
    content = told(home, {}, other)
    assert keys(content["causes"]) == ["host.CPU", "keyelab.version"]
    assert keys(content["causes"][1]["follows"]) == ["keyelab.commit"]

    a, b = pair(home / "2", {}, other)
    for side, source in ((a, "x = 1"), (b, "x = 2")):
        write_notebook(side.folder / "06_serve.ipynb", source)
    content = diff(a, b, NEEDS, lambda one, two: None)
    assert keys(content["causes"]) == ["keyelab.version", "host.CPU"]
    assert content["notebooks"] == [
        f"nbdiff-web {shown(a.folder)}/06_serve.ipynb {shown(b.folder)}/06_serve.ipynb"
    ]


def write_notebook(path: Path, source: str, output: str = "") -> None:
    injected = {"tags": ["injected-parameters"]}
    cells = [
        {"cell_type": "code", "metadata": injected, "source": [f"run_dir = '{path}'"]},
        {"cell_type": "code", "metadata": {}, "source": [source], "outputs": [output]},
    ]
    path.write_text(json.dumps({"cells": cells}))


def test_notebooks_with_equal_source_are_equal_whatever_they_printed(home: Path) -> None:
    a, b = pair(home, {}, {})
    for side in (a, b):
        write_notebook(side.folder / "05_build.ipynb", "x = 1", output=str(side.folder))
    content = diff(a, b, NEEDS, lambda one, two: None)
    assert (content["differs"], content["notebooks"]) == (False, [])


def test_facts_are_named_as_the_phases_leave_them() -> None:
    from keyelab import facts

    models: dict[str, Any] = {
        "env_check": facts.EnvFacts, "model_fetch": facts.ModelFacts,
        "header_fixes": facts.HeaderFacts, "source_patch": facts.SourceFacts,
        "build": facts.BuildFacts, "serve": facts.ServeFacts, "video_test": facts.VideoFacts,
        "perf_analysis": facts.PerfFacts,
    }  # fmt: skip
    for phase, left in FACTS.items():
        assert left.keys() - models[phase].model_fields.keys() <= {"port"}
