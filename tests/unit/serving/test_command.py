from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest

from keyelab.errors import KeyelabError, UsageError
from keyelab.facts import BuildFacts, ModelFacts
from keyelab.params import Serve
from keyelab.serving import command


def value_of(argv: list[str], flag: str) -> str:
    return argv[argv.index(flag) + 1]


def test_parameters_become_flags(make_plan: Any) -> None:
    argv = make_plan(
        alias="keye", context_tokens=8192, parallel=2, threads=3, flash_attention="off"
    ).argv(8082)
    assert value_of(argv, "--alias") == "keye"
    assert value_of(argv, "--ctx-size") == "8192"
    assert value_of(argv, "--parallel") == "2"
    assert value_of(argv, "--threads") == "3"
    assert value_of(argv, "--flash-attn") == "off"
    assert value_of(argv, "--cache-ram") == "0"
    assert value_of(argv, "--port") == "8082"
    assert value_of(argv, "--host") == "127.0.0.1"
    assert value_of(argv, "--model").endswith("model.gguf")
    assert value_of(argv, "--mmproj").endswith("mmproj.gguf")


def test_trace_level_is_asked_for_and_metrics_are_not(make_plan: Any) -> None:
    argv = make_plan().argv(1)
    assert value_of(argv, "--log-verbosity") == "4"
    assert "--metrics" not in argv
    assert "--threads" not in argv


def test_flags_that_the_binary_lacks_are_left_out(build: BuildFacts, model: ModelFacts) -> None:
    plan = command.make(Serve(), build, model, {"--port"}, {})
    assert "--cache-ram" not in plan.options
    assert "--log-verbosity" not in plan.options


def test_extra_arguments_come_last_and_are_checked(make_plan: Any) -> None:
    assert make_plan(extra_args=["--no-mmap"]).options[-1] == "--no-mmap"
    with pytest.raises(UsageError, match="--nope"):
        make_plan(extra_args=["--nope"])


def test_missing_model_is_one_sentence(make_plan: Any, tmp_path: Path) -> None:
    (tmp_path / "model.gguf").unlink()
    with pytest.raises(KeyelabError, match="expected the model at") as error:
        make_plan()
    assert "model_fetch" in error.value.hint


def test_model_of_another_size_is_noticed(make_plan: Any, tmp_path: Path) -> None:
    (tmp_path / "mmproj.gguf").write_bytes(b"GGUF and more")
    with pytest.raises(KeyelabError, match="to have 4 bytes, found 13"):
        make_plan()


def test_key_follows_words_and_files_and_not_the_port(
    make_plan: Any, build: BuildFacts, model: ModelFacts
) -> None:
    key = make_plan(port=1).key
    assert make_plan(port=2).key == key
    assert make_plan(alias="other").key != key
    rebuilt = build.model_copy(deep=True)
    rebuilt.binaries["llama-server"].sha256 = "1" * 64
    known = {"--port", "--cache-ram", "--log-verbosity"}
    one = command.make(Serve(), build, model, known, {}).key
    assert command.make(Serve(), rebuilt, model, known, {}).key != one
    assert command.make(Serve(), build, model, known, {"HIP_VISIBLE_DEVICES": "0"}).key != one
    assert command.make(Serve(), build, model, known, {"EDITOR": "vi"}).key == one


def test_every_address_is_reached_over_loopback(make_plan: Any) -> None:
    assert make_plan().url(80) == "http://127.0.0.1:80"
    assert make_plan(host="0.0.0.0").url(80) == "http://127.0.0.1:80"
    assert make_plan(host="::1").url(80) == "http://[::1]:80"


def test_hidden_flags_of_the_environment_are_dropped() -> None:
    kept = command.environment({"LLAMA_ARG_HOST": "0.0.0.0", "LLAMA_API_KEY": "k", "PATH": "/bin"})
    assert kept == {"LLAMA_API_KEY": "k", "PATH": "/bin"}


def test_command_can_be_pasted(make_plan: Any) -> None:
    plan = make_plan(alias="two words")
    assert shlex.split(plan.command(8082))[1:] == plan.argv(8082)[1:]


def test_dry_run_shows_the_command_without_looking_at_files() -> None:
    words = shlex.split(command.sketch(Serve(port=8082, extra_args=["-ngl", "99"])))
    assert words[:3] == ["llama-server", "--model", "MODEL.gguf"]
    assert words[-6:] == ["-ngl", "99", "--host", "127.0.0.1", "--port", "8082"]
