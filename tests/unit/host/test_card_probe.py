"""The probe itself: its program on a pretended card, and on real compilers where they are."""

from __future__ import annotations

import json
import os
import re
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from keyelab.commands.probe import probe
from keyelab.host.card import Card, read
from keyelab.host.probe import RAISED, SOURCE, TRIALS, Trial, transcript

DATA = Path(__file__).parents[2] / "data" / "host"
FAKES = Path(__file__).parents[2] / "fakes"
HIP_INCLUDE = os.environ.get("KEYELAB_HIP_INCLUDE", "")
CLANG = next((name for name in ("clang++", "clang++-19") if shutil.which(name)), "")

# builds the program for the CPU threads of tests/data/host/hip; each build once a session
COMPILER = """#!{python}
import hashlib, pathlib, shutil, subprocess, sys
words = [word for word in sys.argv[1:] if word not in ("-x", "hip", "-O2")]
if "-dM" in words:
    sys.exit("no macros here")
out = pathlib.Path(words.pop(words.index("-o") + 1))
flags = [w.replace("--gpu-max-threads-per-block", "-DRAISED") for w in words if w != "-o"]
flags = [word for word in flags if not word.startswith("--offload-arch")]
kept = pathlib.Path({cache!r}, hashlib.sha256(" ".join(flags).encode()).hexdigest())
if not kept.exists():
    command = ["g++", "-x", "c++", "-std=c++17", "-I{include}", *flags, "-o", kept, "-pthread"]
    if subprocess.run(command).returncode:
        sys.exit(1)
shutil.copy(kept, out)
"""


@pytest.fixture(scope="module")
def compiler(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not shutil.which("g++"):
        pytest.skip("needs g++")
    folder = tmp_path_factory.mktemp("pretended")
    path = folder / "hipcc"
    path.write_text(COMPILER.format(python=sys.executable, cache=str(folder), include=DATA))
    path.chmod(0o755)
    return path


def ask(compiler: Path, card: str, tmp_path: Path, run_s: float = 20.0) -> Card:
    env = {**os.environ, "CARD": card, "TMPDIR": str(tmp_path)}
    return read(transcript(str(compiler), "gfx928", env, tmp_path / "probe.log", run_s=run_s))


def test_the_program_sees_a_card_whose_compiler_bounds_kernels_at_256(
    compiler: Path, tmp_path: Path
) -> None:
    card = ask(compiler, "prints", tmp_path)
    assert (card.facts.arch, card.facts.default_bound_threads) == ("gfx928", 256)
    assert card.facts.runs_512_bound is True
    assert card.facts.runs_1024_bound is True
    assert card.facts.runs_1024_flag is True
    assert card.facts.runs_1024_plain is False
    # the CPU has no such instruction: a refused build makes this fact false and no other
    assert card.facts.dot is False
    assert card.reasons["dot"].startswith("sdot4: 128 of 128 slots right; dot2: no such instruct")


def test_the_log_is_the_whole_transcript(compiler: Path, tmp_path: Path) -> None:
    env = {**os.environ, "CARD": "none"}
    text = transcript(str(compiler), "gfx928", env, tmp_path / "probe.log")
    assert (tmp_path / "probe.log").read_text(encoding="utf-8") == text
    assert "$ " in text


def test_nothing_is_left_behind(
    compiler: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    transcript(str(compiler), "gfx928", os.environ, tmp_path / "probe.log")
    assert [path.name for path in tmp_path.iterdir()] == ["probe.log"]


@pytest.mark.parametrize(
    ("card", "reason"),
    [
        ("refuses", "hipErrorLaunchFailure; 0 of 2,048 slots right"),
        ("prints", "the runtime says: larger than launch bounds (256)"),
    ],
)
def test_a_launch_over_the_bound_does_not_run_however_the_runtime_answers(
    compiler: Path, tmp_path: Path, card: str, reason: str
) -> None:
    seen = ask(compiler, card, tmp_path)
    assert (seen.facts.runs_1024_plain, seen.reasons["runs_1024_plain"]) == (False, reason)


def test_a_launch_that_hangs_is_ended_and_nothing_is_tried_after_it(
    compiler: Path, tmp_path: Path
) -> None:
    card = ask(compiler, "hangs", tmp_path, run_s=1.0)
    assert card.facts.runs_512_bound is True
    assert card.facts.runs_1024_bound is False
    assert card.reasons["runs_1024_bound"] == "still running after 1 s"
    assert card.unknown == ["runs_1024_plain", "runs_1024_flag", "dot"]


def test_a_launch_that_kills_the_program_does_not_run_and_the_rest_is_still_tried(
    compiler: Path, tmp_path: Path
) -> None:
    card = ask(compiler, "crashes", tmp_path)
    assert card.facts.runs_1024_flag is False
    assert "SIGABRT" in card.reasons["runs_1024_flag"]
    assert card.facts.dot is False
    assert card.unknown == []


@pytest.mark.parametrize(
    ("card", "reason"),
    [
        ("none", "hipGetDeviceCount: hipErrorNoDevice"),
        ("busy", "hipMalloc: hipErrorOutOfMemory"),
    ],
)
def test_without_a_card_to_use_nothing_is_known(
    compiler: Path, tmp_path: Path, card: str, reason: str
) -> None:
    seen = ask(compiler, card, tmp_path)
    assert len(seen.unknown) == 5
    assert seen.reasons["runs_1024_flag"] == reason


def test_without_a_compiler_nothing_is_known_and_no_error_is_raised(tmp_path: Path) -> None:
    seen = ask(tmp_path / "hipcc", "prints", tmp_path)
    assert len(seen.unknown) == 5
    assert seen.reasons["dot"].startswith("expected the program")


def test_a_compiler_that_refuses_everything_says_nothing_of_the_card(tmp_path: Path) -> None:
    broken = tmp_path / "hipcc"
    broken.write_text("#!/bin/sh\necho 'dcc: error: cannot find ROCm device library'\nexit 1\n")
    broken.chmod(0o755)
    seen = ask(broken, "prints", tmp_path)
    assert len(seen.unknown) == 5
    assert seen.reasons["dot"] == "cannot find ROCm device library"


def test_the_halves_of_the_reference_are_what_ieee_754_says() -> None:
    text = SOURCE.read_text(encoding="utf-8")
    lists = {
        name: re.search(rf"{name}\[\] = \{{(.*?)\}}", text) for name in ("HALF_BITS", "HALF_VALUES")
    }
    bits, values = (
        [word.strip() for word in found[1].split(",")] for found in lists.values() if found
    )
    read_back = [struct.unpack("<e", struct.pack("<H", int(word, 16)))[0] for word in bits]
    assert read_back == [float(word.rstrip("f")) for word in values]


@pytest.mark.skipif(not HIP_INCLUDE, reason="KEYELAB_HIP_INCLUDE names no HIP headers")
@pytest.mark.skipif(not CLANG, reason="needs clang++")
@pytest.mark.parametrize("trial", TRIALS[:6], ids=lambda trial: trial.name)
def test_a_hip_compiler_makes_what_the_trial_is_about(trial: Trial, tmp_path: Path) -> None:
    name = trial.name
    hip = [CLANG, "-x", "hip", "--offload-arch=gfx906", "-O2", "-Wall", "-nogpuinc", "-nogpulib"]
    hip += ["-D__HIP_PLATFORM_AMD__", "-isystem", HIP_INCLUDE]
    hip += ["-include", "__clang_hip_runtime_wrapper.h", *trial.flags, str(SOURCE)]
    out = tmp_path / "probe"
    if name != "flag-1024":  # a flag for the device only
        subprocess.run([*hip, "--cuda-host-only", "-Werror", "-c", "-o", out], check=True)
    subprocess.run([*hip, "--cuda-device-only", "-Werror", "-S", "-o", out], check=True)
    assembly = out.read_text(encoding="utf-8")
    bound = re.search(r"\.max_flat_workgroup_size: (\d+)", assembly)
    # clang's own default is 1,024; DTK's is 256
    assert bound
    assert bound[1] == ("512" if name == "bound-512" else "1024")
    assert ("v_dot4_i32_i8" in assembly) == (name == "sdot4")
    assert ("v_dot2_f32_f16" in assembly) == (name == "dot2")
    if name == "flag-1024":
        lower = RAISED.replace("1024", "256")
        hip[hip.index(RAISED)] = lower
        subprocess.run([*hip, "--cuda-device-only", "-S", "-o", out], check=True)
        assert ".max_flat_workgroup_size: 256" in out.read_text(encoding="utf-8")


def test_the_command_prints_facts_and_recipe_and_exits_0_when_all_is_settled(
    tmp_path: Path,
) -> None:
    words = ["--compiler", str(FAKES / "hipcc"), "--log", str(tmp_path / "log")]
    done = CliRunner().invoke(probe, [*words, "--json"])
    content = json.loads(done.output)
    assert (done.exit_code, content["unknown"]) == (0, [])
    assert content["facts"]["runs_1024_flag"] is True
    assert content["facts"]["dot"] is False
    assert [row["verdict"] for row in content["chosen"]] == ["passed over", "taken"]
    assert content["recipe"] == "gcn"
    plain = CliRunner().invoke(probe, words)
    assert plain.exit_code == 0
    assert "recipe gcn " in plain.output


def test_the_command_exits_1_when_something_stays_unknown(tmp_path: Path) -> None:
    words = ["--compiler", str(tmp_path / "hipcc"), "--log", str(tmp_path / "log")]
    done = CliRunner().invoke(probe, words)
    assert done.exit_code == 1
    assert "recipe article    taken" in done.output
    assert "next: " in done.output


def test_the_command_loads_env_sh_so_that_hipcc_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", os.defpath)
    words = ["--log", str(tmp_path / "log"), "--json", "--toolkit-root"]
    done = CliRunner().invoke(probe, [*words, str(FAKES / "dtk")])
    assert (done.exit_code, json.loads(done.output)["facts"]["runs_1024_flag"]) == (0, True)
    assert CliRunner().invoke(probe, [*words, str(tmp_path)]).exit_code == 1


def test_an_unknown_option_is_a_usage_error() -> None:
    assert CliRunner().invoke(probe, ["--arhc", "gfx928"]).exit_code == 2
