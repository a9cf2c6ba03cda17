from __future__ import annotations

import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest

from keyelab.errors import UsageError
from keyelab.facts import BuildFacts, SourceFacts
from keyelab.files import redact
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


def test_what_a_build_does_unasked_is_pinned(make_plan: Any) -> None:
    argv = make_plan().argv(1)
    assert value_of(argv, "--fit") == "off"
    assert value_of(make_plan(fit=True).argv(1), "--fit") == "on"


def test_extra_arguments_come_last_and_values_are_not_taken_for_flags(make_plan: Any) -> None:
    extra = ["--no-mmap", "-ngl", "-1", "-ot", "exps=CPU"]
    assert make_plan(extra_args=extra).options[-5:] == tuple(extra)


def test_flag_that_the_binary_does_not_have_is_refused(make_plan: Any) -> None:
    with pytest.raises(UsageError, match=r"has no flag --load-mode.*near"):
        make_plan(extra_args=["--load-mode", "none"])


def test_setting_that_cannot_work_is_refused(make_plan: Any) -> None:
    with pytest.raises(UsageError, match="needs flash attention"):
        make_plan(cache_type_v="q8_0", flash_attention="off")
    assert make_plan(ubatch_tokens=4096, extra_args=["-b", "4096"])
    with pytest.raises(UsageError, match="more than a batch holds"):
        make_plan(ubatch_tokens=4096)


def test_device_that_the_binary_does_not_list_is_refused(make_plan: Any) -> None:
    with pytest.raises(UsageError, match=r"it prints none\), found 'ROCm0'"):
        make_plan(devices="ROCm0")
    assert value_of(make_plan(devices="none").argv(1), "--device") == "none"


def test_key_follows_words_and_files_and_not_the_port(
    make_plan: Any, build: BuildFacts, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = make_plan(port=1).key
    assert make_plan(port=2).key == key
    assert make_plan(alias="other").key != key
    monkeypatch.setenv("EDITOR", "vi")
    assert make_plan().key == key
    monkeypatch.setenv("HIP_VISIBLE_DEVICES", "0")
    assert make_plan().key != key
    monkeypatch.delenv("HIP_VISIBLE_DEVICES")
    build.binaries["llama-server"].sha256 = "1" * 64
    assert make_plan().key != key


def test_replicas_differ_in_port_threads_and_key(make_plans: Any) -> None:
    one, two = make_plans(replicas=2, port=8082)
    assert (one.params.port, two.params.port) == (8082, 8083)
    assert (one.params.alias, one.params.threads) == (two.params.alias, 2)
    assert one.key != two.key
    assert [plan.params.port for plan in make_plans(replicas=2)] == [0, 0]


def test_replicas_on_cards_see_only_their_own(
    make_plans: Any, build: BuildFacts, monkeypatch: pytest.MonkeyPatch
) -> None:
    build.backend = "hip"
    monkeypatch.setenv("HIP_VISIBLE_DEVICES", "2,3")
    one, two = make_plans(replicas=2)
    assert (one.env["HIP_VISIBLE_DEVICES"], one.cards) == ("2", ("2",))
    assert (two.env["HIP_VISIBLE_DEVICES"], two.cards) == ("3", ("3",))
    assert two.command(8083).startswith("HIP_VISIBLE_DEVICES=3 ")


def test_key_of_the_api_stays_out_of_words_and_plans(
    make_plan: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LLAMA_API_KEY", "planted-in-the-environment")
    assert make_plan().env["LLAMA_API_KEY"] == "planted-in-the-environment"
    assert "planted" not in f"{make_plan()!r} {command.example(make_plan(), 80)}"
    path = tmp_path / "key"
    path.write_text("planted-in-a-file-0123\n")
    path.chmod(0o600)
    plan = make_plan(api_key_file=str(path))
    assert value_of(plan.argv(1), "--api-key-file") == str(path)
    assert "LLAMA_API_KEY" not in plan.env
    assert "planted" not in f"{plan!r} {plan.argv(1)} {command.example(plan, 80)}"
    path.write_text("planted-another-one-0123\n")
    assert make_plan(api_key_file=str(path)).key != plan.key


def test_key_file_that_others_can_read_stops_the_plan(make_plan: Any, tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_text("planted-in-a-file-0123\n")
    path.chmod(0o644)
    with pytest.raises(UsageError, match="only its owner can read"):
        make_plan(api_key_file=str(path))


def test_flags_in_variables_do_not_reach_the_server(
    make_plan: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LLAMA_ARG_CTX_SIZE", "17")
    assert "LLAMA_ARG_CTX_SIZE" not in make_plan().env


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


def test_open_address_without_a_key_is_refused(
    make_plan: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LLAMA_API_KEY", raising=False)
    with pytest.raises(UsageError, match=r"serve\.host=0\.0\.0\.0, which others can reach"):
        make_plan(host="0.0.0.0")


def test_every_address_is_reached_over_loopback(
    make_plan: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LLAMA_API_KEY", "of-the-environment")
    reached = ("127.0.0.1", "127.0.0.1"), ("0.0.0.0", "127.0.0.1"), ("::1", "[::1]")
    for host, name in reached:
        assert f"http://{name}:80/v1/" in command.example(make_plan(host=host), 80)


def test_commands_can_be_pasted(make_plan: Any) -> None:
    plan = make_plan(alias="two words")
    assert shlex.split(plan.command(8082))[1:] == plan.argv(8082)[1:]
    curl, _, stop = command.example(plan, 8082).splitlines()
    assert shlex.split(curl)[-1].startswith('{"model": "two words"')
    assert stop == "keyelab stop --port 8082"


def test_shell_reads_the_key_where_it_lies(make_plan: Any, tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_text("# mine\n\nplanted-in-a-file-0123\n")
    path.chmod(0o600)
    curl = command.example(make_plan(api_key_file=str(path)), 80).splitlines()[0]
    script = f'curl() {{ for word; do case $word in @*) cat "${{word#@}}";; esac; done; }}; {curl}'
    said = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    assert said.stdout == "X-Api-Key: planted-in-a-file-0123"
    assert redact(curl) == curl, "a record shows it as it is typed"


def test_dry_run_shows_the_commands_without_looking_at_files() -> None:
    one, two = command.sketch(Serve(port=8082, replicas=2, extra_args=["-ngl", "99"]))
    words = shlex.split(one)
    assert words[:3] == ["llama-server", "--model", "MODEL.gguf"]
    assert words[-6:] == ["-ngl", "99", "--host", "127.0.0.1", "--port", "8082"]
    assert two.endswith("--port 8083")


def test_table_says_where_each_word_comes_from(make_plans: Any) -> None:
    plans = make_plans(cache_type_k="q8_0")
    rows = command.rows(plans, Serve())
    assert {"parameter": "serve.cache_type_k", "words": "--cache-type-k q8_0"}.items() <= next(
        row for row in rows if row["parameter"] == "serve.cache_type_k"
    ).items()
    words = shlex.split(" ".join(row["words"] for row in rows))
    assert len(words) == len(plans[0].options)
    assert len(command.rows([], Serve())) == len(rows) - 1
