"""The command line against a real llama-server: every word is taken and does what it says."""

from __future__ import annotations

import os
from pathlib import Path

import llama
import pytest

from keyelab.serving import command, flags, lifecycle, process
from keyelab.serving.lifecycle import Place

pytestmark = pytest.mark.e2e
HELP = Path(__file__).parents[1] / "data" / "serving" / "help"


def log_of(plan: command.ServerPlan, folder: Path) -> str:
    """Start the plan's server, wait until it is ready, stop it; its log."""
    place = Place(folder / "work", folder / "run", folder / "run" / "server.log")
    (server,) = lifecycle.ensure([plan], place, 60, lambda *_: None)
    process.stop(server)
    return Path(server.log).read_text()


def test_flags_kept_for_the_tests_are_those_of_the_binary() -> None:
    program = llama.find_server()
    number = llama.build_facts().version.partition("-")[0]
    kept = HELP / f"{number}.txt"
    if not kept.exists():
        pytest.skip(f"no help of {number} is kept")
    real = flags.offered(program, "real", os.environ).flags
    stored = flags.parse(kept.read_text(), "kept").flags
    assert {n: (f.values, f.choices, f.gone) for n, f in real.items()} == {
        n: (f.values, f.choices, f.gone) for n, f in stored.items()
    }


def test_every_parameter_does_what_it_says(tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text("planted-key-0123456789\n")
    key.chmod(0o600)
    (plan,) = llama.plans(
        context_tokens=1024, parallel=2, threads=1, cache_type_k="q8_0", cache_type_v="q8_0",
        ubatch_tokens=64, image_max_tokens=32, devices="none", split_mode="layer",
        load_mode="read", api_key_file=str(key), extra_args=["--no-warmup"],
    )  # fmt: skip
    log = log_of(plan, tmp_path)
    said = " ".join(log.split())
    for words in (
        "n_ctx = 1024", "n_slots = 2, n_ctx_slot = 512", "n_ubatch = 64", "K (q8_0)", "V (q8_0)",
        "image_max_pixels: 32768 (custom value)", "api_keys: ****6789",
    ):  # fmt: skip
        assert words in said, words
    # b10019 says it the first way, b10502 and later the second
    assert "mmap = false" in said or "load_mode = none" in said
    assert "DEPRECATED" not in log
    assert "planted" not in log


def test_nothing_is_shrunk_unasked(tmp_path: Path) -> None:
    assert "fitting params" not in log_of(llama.plans()[0], tmp_path / "off")
    assert "fitting params" in log_of(llama.plans(fit=True)[0], tmp_path / "on")
