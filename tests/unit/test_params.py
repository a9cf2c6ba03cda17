"""Parameters are typed strictly, remember their source, and a bad one is one sentence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from keyelab import params
from keyelab.errors import UsageError

WriteYaml = Any


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout with one empty target, `box`."""
    for name in ("notebooks", "params/box"):
        (tmp_path / name).mkdir(parents=True)
    monkeypatch.setenv("KEYELAB_HOME", str(tmp_path))
    return tmp_path


def put(checkout: Path, name: str, content: str | bytes) -> None:
    data = content.encode() if isinstance(content, str) else content
    (checkout / "params/box" / f"{name}.yaml").write_bytes(data)


def refused(phase: str = "source_patch", **overrides: Any) -> UsageError:
    with pytest.raises(UsageError) as caught:
        params.resolve(phase, "box", overrides)
    assert caught.value.exit_code == 2
    return caught.value


def test_precedence_is_default_common_phase_override(checkout: Path) -> None:
    put(checkout, "common", "workdir: from-common\nverbose: true\ntools_dir: from-common\n")
    put(checkout, "build", "workdir: from-phase\njobs: 3\nverbose: false\n")
    found = params.resolve("build", "box", {"jobs": 7})
    assert (found.values.workdir, found.values.verbose, found.values.jobs) == (
        "from-phase",
        False,
        7,
    )
    assert found.values.tools_dir == "from-common"
    assert found.sources["workdir"] == "params/box/build.yaml"
    assert found.sources["tools_dir"] == "params/box/common.yaml"
    assert found.sources["jobs"] == "override"
    assert found.sources["build_type"] == "default"
    assert found.as_record()["jobs"] == {"value": 7, "source": "override"}


def test_the_source_of_an_override_is_what_the_caller_says(checkout: Path) -> None:
    found = params.resolve("build", "box", {"jobs": 7}, source="parameters cell")
    assert found.sources["jobs"] == "parameters cell"
    assert (found.values.target, found.sources["target"]) == ("box", "parameters cell")


def test_a_default_target_is_not_called_an_override() -> None:
    found = params.resolve("build", "cpu-demo", {}).sources["target"]
    assert found == "params/cpu-demo/common.yaml"


@pytest.mark.parametrize("target", params.targets())
def test_stock_papermill_learns_the_target_from_its_files(target: str) -> None:
    assert params.target_values(target, "build")["target"][0] == target


def test_a_copied_folder_that_still_names_the_old_target_is_refused(checkout: Path) -> None:
    put(checkout, "common", "target: old\n")
    error = refused("build")
    assert "expected target: box in params/box/common.yaml, found 'old'" in error.message
    assert error.hint == "write target: box there"


def test_an_unknown_target_names_a_close_one(checkout: Path) -> None:
    with pytest.raises(UsageError, match="did you mean 'box'") as caught:
        params.resolve("build", "bxo", {})
    assert caught.value.hint == "one of: box"


def test_an_unknown_phase_names_a_close_one() -> None:
    with pytest.raises(UsageError, match="did you mean 'build'"):
        params.phase_model("biuld")


@pytest.mark.parametrize("name", ["common", "build"])
def test_an_unknown_key_names_file_and_close_key(checkout: Path, name: str) -> None:
    put(checkout, name, "workdri: x\n")
    error = refused("build")
    assert "unknown key 'workdri'" in error.message
    assert f"params/box/{name}.yaml" in error.message
    assert "did you mean 'workdir'" in error.message


def test_a_key_of_a_phase_does_not_belong_into_common(checkout: Path) -> None:
    put(checkout, "common", "jobs: 2\n")
    assert "unknown key 'jobs'" in refused("build").message


def test_a_key_that_yaml_takes_for_a_truth_value_is_unknown_too(checkout: Path) -> None:
    put(checkout, "build", "on: 1\n")
    assert "unknown key True" in refused("build").message


def test_an_unknown_override_names_a_close_one(checkout: Path) -> None:
    assert "build.jbos; did you mean 'jobs'" in refused("build", jbos=2).message


def test_a_commit_that_looks_like_a_number_stays_text(checkout: Path) -> None:
    put(checkout, "source_patch", "git_ref: 12e4567\n")
    assert params.resolve("source_patch", "box", {}).values.git_ref == "12e4567"
    assert params.parse_override("source_patch.git_ref=12e4567")[2] == "12e4567"
    assert params.parse_override("source_patch.git_ref=0123456")[2] == "0123456"


@pytest.mark.parametrize("raw", ["0123456", "1234567", "1.5", "2026-01-02", "yes", "1:30"])
def test_text_that_yaml_reads_as_something_else_is_refused_with_quote_it(
    checkout: Path, raw: str
) -> None:
    put(checkout, "source_patch", f"git_ref: {raw}\n")
    error = refused()
    assert "source_patch.git_ref: expected text" in error.message
    assert "params/box/source_patch.yaml" in error.message
    assert error.hint.startswith("quote it: git_ref:")
    assert "42798" not in error.hint  # 0123456 is octal to YAML: not what was written
    put(checkout, "source_patch", f'git_ref: "{raw}"\n')
    assert params.resolve("source_patch", "box", {}).values.git_ref == raw


def test_a_truth_value_as_text_says_how_to_write_it(checkout: Path) -> None:
    assert "-p dry_run True with papermill" in refused("build", dry_run="true").hint


def test_off_without_quotes_is_refused_with_the_choices(checkout: Path) -> None:
    put(checkout, "serve", "flash_attention: off\n")
    error = refused("serve")
    assert "expected one of auto, on, off, found False (bool)" in error.message
    assert error.hint.startswith("quote it")


def test_a_value_outside_the_choices_gives_them(checkout: Path) -> None:
    error = refused("serve", flash_attention="fast")
    assert "expected one of auto, on, off, found 'fast'" in error.message
    assert not error.hint.startswith("quote it")


def test_text_values_of_a_mapping_are_strict_too(checkout: Path) -> None:
    put(checkout, "build", "cmake_options:\n  GGML_HIP: ON\n")
    error = refused("build")
    assert "build.cmake_options" in error.message
    assert error.hint.startswith("quote it")


@pytest.mark.parametrize(
    ("phase", "key", "value", "expected"),
    [
        ("build", "jobs", "two", "a whole number"),
        ("build", "jobs", 1.5, "a whole number"),
        ("build", "jobs", True, "a whole number"),
        ("build", "reuse", "yes", "true or false"),
        ("build", "reuse", 1, "true or false"),
        ("build", "build_type", 5, "text"),
        ("build", "build_type", None, "text"),
        ("video_test", "fps", "fast", "a number"),
        ("video_test", "fps", True, "a number"),
        ("serve", "extra_args", "--verbose", "list[str]"),
    ],
)
def test_a_wrong_type_says_expected_and_found(
    checkout: Path, phase: str, key: str, value: Any, expected: str
) -> None:
    error = refused(phase, **{key: value})
    assert f"{phase}.{key}: expected {expected}, found {value!r}" in error.message
    assert error.message.endswith("from override")


def test_a_whole_number_is_a_number(checkout: Path) -> None:
    fps = params.resolve("video_test", "box", {"fps": 2}).values.fps
    assert (fps, type(fps)) == (2.0, float)


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        ("build.jobs=2", ("build", "jobs", 2)),
        ("build.reuse=false", ("build", "reuse", False)),
        ("video_test.fps=2", ("video_test", "fps", 2)),
        ("serve.extra_args=[-v, --no-mmap]", ("serve", "extra_args", ["-v", "--no-mmap"])),
        ("build.cmake_options={A: 'ON'}", ("build", "cmake_options", {"A": "ON"})),
        ("video_test.prompt=a=b: {c", ("video_test", "prompt", "a=b: {c")),
        ("source_patch.recipe=", ("source_patch", "recipe", "")),
        ("build.jobs=2024-13-45", ("build", "jobs", "2024-13-45")),
    ],
)
def test_an_override_is_read_by_its_declared_type(text: str, parsed: tuple[Any, ...]) -> None:
    assert params.parse_override(text) == parsed


@pytest.mark.parametrize("text", ["jobs=2", "build.jobs", "build", "=x"])
def test_an_override_without_phase_key_and_value_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"expected phase.key=value"):
        params.parse_override(text)


def test_a_mistyped_override_key_names_a_close_one() -> None:
    with pytest.raises(UsageError, match="did you mean 'jobs'"):
        params.parse_override("build.job=2")


@pytest.mark.parametrize(
    ("content", "found"),
    [
        ("a: [1", "expected YAML"),
        ("- a\n", "found list"),
        ("[]", "found list"),
        ("false", "found bool"),
        (b"\xff\xfe\xfa: 1", "expected YAML"),
        ("revision: 2024-13-45", "expected YAML"),
    ],
)
def test_a_file_that_is_no_mapping_is_named(
    checkout: Path, content: str | bytes, found: str
) -> None:
    put(checkout, "model_fetch", content)
    error = refused("model_fetch")
    assert found in error.message
    assert "params/box/model_fetch.yaml" in error.message


@pytest.mark.parametrize("content", ["", "# only a comment\n", "---\n"])
def test_an_empty_file_gives_nothing(checkout: Path, content: str) -> None:
    put(checkout, "build", content)
    assert params.resolve("build", "box", {}).sources["jobs"] == "default"


def test_values_cannot_be_changed_later(checkout: Path) -> None:
    values = params.resolve("build", "box", {}).values
    with pytest.raises(ValueError, match="frozen"):
        values.jobs = 3


@pytest.mark.parametrize("target", params.targets())
@pytest.mark.parametrize("phase", list(params.PARAMETERS))
def test_every_target_of_this_checkout_resolves(target: str, phase: str) -> None:
    assert params.resolve(phase, target, {}).values.target == target


def test_every_parameter_has_a_description() -> None:
    for phase, model in params.PARAMETERS.items():
        for name, field in model.model_fields.items():
            assert field.description, f"{phase}.{name}"
