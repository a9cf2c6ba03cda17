from __future__ import annotations

import shlex
from typing import Any

import pytest

from keyelab.errors import UsageError
from keyelab.facts import BuildFacts, ModelFacts, SourceFacts
from keyelab.params import Serve
from keyelab.serving import command


@pytest.fixture
def source() -> SourceFacts:
    return SourceFacts(
        tree="work/sources/t",
        origin="tests",
        version="10019.0.0",
        recipe="article",
        base_sha256="0" * 64,
        tree_sha256="1" * 64,
        patches=[],
    )


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


def test_extra_arguments_come_last_and_values_are_not_taken_for_flags(make_plan: Any) -> None:
    extra = ["--no-mmap", "-ngl", "-1", "-ot", "exps=CPU"]
    assert make_plan(extra_args=extra).options[-5:] == tuple(extra)


@pytest.mark.parametrize(
    ("words", "owner"),
    [
        (["--port", "8082"], "serve.port"),
        (["-m", "x.gguf"], "model_fetch.model_file"),
        (["--api-key", "hidden-value"], "the environment variable LLAMA_API_KEY"),
        (["--api-key=hidden-value"], "the environment variable LLAMA_API_KEY"),
    ],
)
def test_argument_that_is_set_elsewhere_is_refused(
    make_plan: Any, words: list[str], owner: str
) -> None:
    with pytest.raises(UsageError, match=f"which {owner} sets") as error:
        make_plan(extra_args=words)
    assert "hidden-value" not in str(error.value)


def test_key_follows_words_and_files_and_not_the_port(
    make_plan: Any, build: BuildFacts, model: ModelFacts
) -> None:
    key = make_plan(port=1).key
    assert make_plan(port=2).key == key
    assert make_plan(alias="other").key != key
    rebuilt = build.model_copy(deep=True)
    rebuilt.binaries["llama-server"].sha256 = "1" * 64
    one = command.make(Serve(), build, model, {}).key
    assert command.make(Serve(), rebuilt, model, {}).key != one
    assert command.make(Serve(), build, model, {"HIP_VISIBLE_DEVICES": "0"}).key != one
    assert command.make(Serve(), build, model, {"EDITOR": "vi"}).key == one


@pytest.mark.parametrize(
    ("backend", "recipe", "asked", "settled"),
    [
        ("hip", "off", "auto", "off"),
        ("hip", "off", "off", "off"),
        ("hip", "auto", "on", "on"),
        ("hip", "auto", "auto", "auto"),
        ("cpu", "off", "on", "on"),
    ],
)
def test_flash_attention_follows_the_recipe_of_a_gpu_build(
    source: SourceFacts, backend: str, recipe: str, asked: Any, settled: str
) -> None:
    facts = source.model_copy(update={"flash_attention": recipe})
    made = command.for_recipe(Serve(flash_attention=asked, alias="a"), backend, facts)
    assert (made.flash_attention, made.alias) == (settled, "a")


def test_flash_attention_that_the_recipe_forbids_is_refused(source: SourceFacts) -> None:
    facts = source.model_copy(update={"flash_attention": "off"})
    with pytest.raises(UsageError, match=r"as the recipe article asks for.*found on") as error:
        command.for_recipe(Serve(flash_attention="on"), "hip", facts)
    assert "serve.flash_attention=off" in error.value.hint


def test_every_address_is_reached_over_loopback(make_plan: Any) -> None:
    assert make_plan().url(80) == "http://127.0.0.1:80"
    assert make_plan(host="0.0.0.0").url(80) == "http://127.0.0.1:80"
    assert make_plan(host="::1").url(80) == "http://[::1]:80"


def test_commands_can_be_pasted(make_plan: Any) -> None:
    plan = make_plan(alias="two words")
    assert shlex.split(plan.command(8082))[1:] == plan.argv(8082)[1:]
    curl, _, stop = command.example(plan, 8082).splitlines()
    assert shlex.split(curl)[-1].startswith('{"model": "two words"')
    assert stop == "keyelab stop --port 8082"


def test_dry_run_shows_the_command_without_looking_at_files() -> None:
    words = shlex.split(command.sketch(Serve(port=8082, extra_args=["-ngl", "99"])))
    assert words[:3] == ["llama-server", "--model", "MODEL.gguf"]
    assert words[-6:] == ["-ngl", "99", "--host", "127.0.0.1", "--port", "8082"]
