"""The CI examples: valid, made of commands that exist, and keeping what a failed run wrote."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from calls import calls, refusal

from keyelab.cli import cli

ROOT = Path(__file__).parents[2]
CI = ROOT / "docs" / "ci"
GITHUB = yaml.safe_load((CI / "github-actions.yml").read_text())
GITLAB = yaml.safe_load((CI / "gitlab-ci.yml").read_text())
STEPS = [step for job in GITHUB["jobs"].values() for step in job["steps"]]
JOBS = {name: job for name, job in GITLAB.items() if name not in ("variables", "default")}


def scripts() -> list[str]:
    """Every shell text of the examples and of their README."""
    found = [step["run"] for step in STEPS if "run" in step]
    for job in (GITLAB["default"], *JOBS.values()):
        for key in ("before_script", "script", "after_script"):
            found += job.get(key, [])
    dag = (CI / "airflow_dag.py").read_text()
    found += [f"keyelab {words}" for words in re.findall(r'f"{BIN} ([^"]+)"', dag)]
    return [*found, *re.findall(r"`(keyelab [^`]+)`", (CI / "README.md").read_text())]


@pytest.mark.parametrize(
    ("schema", "path"),
    [
        ("vendor.github-workflows", CI / "github-actions.yml"),
        ("vendor.github-workflows", ROOT / ".github" / "workflows" / "ci.yml"),
        ("vendor.gitlab-ci", CI / "gitlab-ci.yml"),
    ],
    ids=lambda value: Path(value).name,
)
def test_an_example_follows_the_schema_of_its_platform(schema: str, path: Path) -> None:
    pytest.importorskip("check_jsonschema")
    words = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema, str(path)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_keyelab_command_and_option_exists() -> None:
    found = calls("keyelab", scripts())
    assert {words[0] for words in found} >= {"run", "verify", "stop", "export", "share"}
    for words in found:
        assert not refusal(cli, words), words


def test_papermill_takes_the_options_and_the_files_are_there() -> None:
    from papermill.cli import papermill

    found = calls("papermill", scripts())
    assert len(found) == 2, "one on GitHub, one on GitLab"
    for words in found:
        assert not refusal(papermill, words)
        assert words[words.index("--engine") + 1] == "keyelab"
        named = [words[0], *(words[i + 1] for i, word in enumerate(words) if word == "-f")]
        assert len(named) == 3
        for name in named:
            assert (ROOT / name.replace("$TARGET", GITHUB["env"]["TARGET"])).is_file(), name


def test_the_make_target_exists() -> None:
    assert [t for t in scripts() if t.startswith("make")] == ["make .venv/.installed"] * 3
    assert "STAMP := .venv/.installed" in (ROOT / "Makefile").read_text()


@pytest.mark.parametrize("name", GITHUB["jobs"])
def test_a_github_job_keeps_its_records_however_it_ends(name: str) -> None:
    (upload,) = [s for s in GITHUB["jobs"][name]["steps"] if "upload-artifact" in s.get("uses", "")]
    assert upload["if"] == "always()"
    assert "records/" in upload["with"]["path"].split()


def test_actions_are_pinned_by_commit() -> None:
    uses = [step["uses"] for step in STEPS if "uses" in step]
    assert uses
    assert all(re.fullmatch(r"[\w/-]+@[0-9a-f]{40}", action) for action in uses)


def test_a_gitlab_job_keeps_its_records_however_it_ends() -> None:
    kept = GITLAB["default"]["artifacts"]
    assert (kept["when"], kept["paths"]) == ("always", ["records/"])
    assert not any("artifacts" in job for job in JOBS.values()), "a job's own would replace them"


def test_both_cache_builds_and_downloads_keyed_by_what_a_build_depends_on() -> None:
    wanted = ["work/builds", "work/downloads"]
    caches = [step["with"] for step in STEPS if "actions/cache" in step.get("uses", "")]
    assert [cache["path"].split() for cache in caches] == [wanted, wanted]
    assert "hashFiles('params/*/*.yaml', 'patches/**')" in caches[0]["key"]
    cache: dict[str, Any] = GITLAB["run"]["cache"]
    assert (cache["paths"], cache["when"]) == (wanted, "always")
    assert all((ROOT / name).is_file() for name in cache["key"]["files"])


def test_the_readme_explains_every_exit_code_of_the_command_line() -> None:
    import keyelab.cli

    told = keyelab.cli.__doc__ or ""
    codes = re.findall(r"(\d+) ", told[told.index("Exit codes") :])
    rows = re.findall(r"^\| (\d+) \|", (CI / "README.md").read_text(), re.MULTILINE)
    assert rows == codes
    assert len(rows) == 6
