from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from keyelab.errors import KeyelabError, UsageError
from keyelab.serving import flags

HELP = Path(__file__).parents[2] / "data" / "serving" / "help"  # flag lines of real --help outputs
BUILDS = sorted(path.stem for path in HELP.glob("*.txt"))


def offer(build: str) -> flags.Offer:
    return flags.parse((HELP / f"{build}.txt").read_text(), build)


@pytest.mark.parametrize("build", BUILDS)
def test_every_spelling_of_a_help_is_found(build: str) -> None:
    text = (HELP / f"{build}.txt").read_text()
    starts = re.findall(r"^--?\w[\w.-]*", text, re.MULTILINE)
    assert len(starts) > 200
    assert set(starts) <= set(offer(build).flags)
    flag = offer(build).find("-fa")
    assert flag
    assert flag.names == ("-fa", "--flash-attn")


def test_flags_come_and_go_between_builds() -> None:
    old, new = offer("b10019"), offer("b11434")
    assert old.find("--no-mmap")
    assert not old.find("--load-mode")
    assert new.find("--load-mode")
    assert not new.find("--no-mmap")


@pytest.mark.parametrize(
    ("name", "values"),
    [("--no-mmap", 0), ("-ngl", 1), ("--control-vector-layer-range", 2), ("-ot", 1), ("-hf", 1)],
)
def test_number_of_values_is_read(name: str, values: int) -> None:
    found = offer("b10019").find(name)
    assert found
    assert found.values == values


def test_allowed_values_are_read() -> None:
    old = offer("b10019").flags
    assert old["--cache-type-v"].choices[:4] == ("f32", "f16", "bf16", "q8_0")
    assert old["--split-mode"].choices == ("none", "layer", "row", "tensor")
    assert old["--flash-attn"].choices == ("on", "off", "auto")
    assert old["--ctx-size"].choices == ()


def test_underscores_are_taken_for_dashes_as_the_server_does() -> None:
    assert offer("b10019").find("--no_mmap") == offer("b10019").find("--no-mmap")
    assert offer("b10019").find("--no_mmap")


def test_flag_that_is_listed_as_removed_is_not_there() -> None:
    with pytest.raises(UsageError, match="has no flag --draft-max: the argument has been removed"):
        offer("b10019").require("--draft-max", "serve.extra_args")


def test_unknown_flag_is_refused_with_near_names_build_and_parameter() -> None:
    with pytest.raises(UsageError, match=r"serve\.extra_args: llama-server b10019 has no") as error:
        offer("b10019").require("--no-mmapp", "serve.extra_args")
    assert "near: --no-mmap" in error.value.message
    assert "take it out of serve.extra_args" in error.value.hint


def test_flag_of_another_build_points_to_its_parameter() -> None:
    with pytest.raises(UsageError) as error:
        offer("b11434").require("--no-mmap", "serve.extra_args")
    assert "set serve.load_mode" in error.value.hint


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["x"], "expected a flag in serve.extra_args, found the value 'x'"),
        (["-ngl"], "expected a value after -ngl"),
        (["--threads-http=2"], "holds --threads-http=…"),
        (["--metrics", "1"], "found the value '1'"),
    ],
)
def test_words_that_the_server_would_not_take_are_refused(words: list[str], said: str) -> None:
    with pytest.raises(UsageError, match=re.escape(said)):
        list(offer("b10019").walk(words, "serve.extra_args"))


def test_value_that_looks_like_a_flag_is_a_value() -> None:
    walked = list(offer("b10019").walk(["-ngl", "-1", "-ot", "exps=CPU", "--metrics"], "w"))
    assert [(name, values) for _, name, values in walked] == [
        ("-ngl", ["-1"]),
        ("-ot", ["exps=CPU"]),
        ("--metrics", []),
    ]


def test_text_without_flags_is_refused() -> None:
    with pytest.raises(KeyelabError, match="expected flags in the --help of llama-server b1"):
        flags.parse("usage: none", "b1")


def test_binary_is_asked(program: Path) -> None:
    assert flags.offered(program, "b10019", os.environ).find("--fit")
    assert flags.devices(program, os.environ) == []


def test_devices_are_read_from_what_the_binary_prints(tmp_path: Path) -> None:
    fake = tmp_path / "llama-server"
    fake.write_text(
        "#!/bin/sh\necho 'Available devices:'\n"
        "echo '  ROCm0: BW200, 65520 MiB (65480 MiB free)'\necho '  ROCm1: BW200'\n"
    )
    fake.chmod(0o755)
    assert flags.devices(fake, os.environ) == ["ROCm0", "ROCm1"]


def test_binary_that_fails_is_named(tmp_path: Path) -> None:
    fake = tmp_path / "llama-server"
    fake.write_text("#!/bin/sh\necho libgalaxyhip.so.5: not found >&2\nexit 127\n")
    fake.chmod(0o755)
    with pytest.raises(KeyelabError, match=r"llama-server --help to answer, found: .*127"):
        flags.offered(fake, "b1", os.environ)
