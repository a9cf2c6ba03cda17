from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from keyelab.errors import UsageError
from keyelab.params import Serve
from keyelab.serving import flags, words

HELP = Path(__file__).parents[2] / "data" / "serving" / "help"
BUILDS = sorted(path.stem for path in HELP.glob("*.txt"))


def offer(build: str) -> flags.Offer:
    return flags.parse((HELP / f"{build}.txt").read_text(), build)


def line(build: str, **given: Any) -> list[str]:
    made = words.chosen(Serve(**given), Path("m"), Path("p"), offer(build))
    return [word for row in made for word in row.words]


@pytest.mark.parametrize("build", BUILDS)
def test_every_parameter_becomes_flags_that_the_build_has(build: str, tmp_path: Path) -> None:
    said = line(
        build,
        cache_type_k="q8_0",
        cache_type_v="q8_0",
        ubatch_tokens=256,
        image_max_tokens=100,
        devices="ROCm0",
        split_mode="layer",
        load_mode="read",
        threads=2,
        api_key_file=str(tmp_path / "key"),
    )
    walked = [name for _, name, _ in offer(build).walk(said, "words")]
    assert len(walked) == len(set(walked)) == 18
    assert {"--cache-type-k", "--ubatch-size", "--image-max-tokens", "--device"} <= {*walked}


def test_defaults_add_no_words_of_their_own() -> None:
    said = line("b10019")
    assert said[::2] == [
        *("--model", "--mmproj", "--alias", "--ctx-size", "--parallel", "--flash-attn"),
        *("--cache-ram", "--fit", "--log-verbosity"),
    ]


@pytest.mark.parametrize(
    ("build", "mode", "expected"),
    [
        ("b10019", "read", ["--no-mmap"]),
        ("b10019", "mmap", ["--mmap"]),
        ("b11434", "read", ["--load-mode", "none"]),
        ("b11434", "mmap", ["--load-mode", "mmap"]),
    ],
)
def test_load_mode_takes_the_flag_that_the_build_has(
    build: str, mode: str, expected: list[str]
) -> None:
    said = line(build, load_mode=mode)
    start = said.index(expected[0])
    assert said[start : start + len(expected)] == expected


def without(*names: str) -> flags.Offer:
    """The flags of b10019 except some."""
    kept = {n: f for n, f in offer("b10019").flags.items() if not {*names} & {*f.names}}
    return flags.Offer("b1", kept)


def test_what_a_build_cannot_do_needs_no_word_against_it() -> None:
    old = without("--fit", "--cache-ram")
    made = [row.parameter for row in words.chosen(Serve(), Path("m"), Path("p"), old)]
    assert not {"serve.fit", "serve.cache_ram_mib"} & {*made}
    with pytest.raises(UsageError, match=r"serve\.fit: llama-server b1 has no flag --fit"):
        words.chosen(Serve(fit=True), Path("m"), Path("p"), old)


def test_flag_that_takes_another_number_of_values_is_refused() -> None:
    old = flags.parse("-fa,   --flash-attn      enable Flash Attention\n", "b5000")
    both = flags.Offer("b5000", {**offer("b10019").flags, **old.flags})
    with pytest.raises(UsageError, match=r"--flash-attn takes 1 value, found .* takes 0"):
        words.chosen(Serve(), Path("m"), Path("p"), both)


def test_missing_flag_is_refused_with_its_parameter() -> None:
    asked = Serve(image_max_tokens=9)
    with pytest.raises(UsageError, match=r"serve\.image_max_tokens: llama-server b1 has") as error:
        words.chosen(asked, Path("m"), Path("p"), without("--image-max-tokens"))
    assert "leave serve.image_max_tokens at its default" in error.value.hint


def test_value_that_the_build_does_not_list_is_refused_with_the_nearest() -> None:
    with pytest.raises(UsageError, match=r"serve\.cache_type_k: expected one of f32") as error:
        line("b10019", cache_type_k="q8")
    assert error.value.hint == "--set serve.cache_type_k=q8_0"


@pytest.mark.parametrize(
    ("given", "owner"),
    [
        (["--port", "8082"], "serve.port"),
        (["-m", "x.gguf"], "model_fetch.model_file"),
        (["-ub", "64"], "serve.ubatch_tokens"),
        (["--api-key", "hidden-value"], "serve.api_key_file"),
        (["--api-key=hidden-value"], "serve.api_key_file"),
        (["--api_key", "hidden-value"], "serve.api_key_file"),
        (["-hft", "hidden-value"], "the environment variable HF_TOKEN"),
        (["-v"], "keyelab itself"),
    ],
)
def test_argument_that_is_set_elsewhere_is_refused(given: list[str], owner: str) -> None:
    for known in (None, offer("b10019")):
        with pytest.raises(UsageError, match=f"which {owner} sets") as error:
            words.extra(given, known)
        assert "hidden-value" not in str(error.value)


def test_extra_flags_are_known_by_their_last_spelling() -> None:
    assert words.extra(["-b", "64", "--metrics"], offer("b10019")) == {
        "--batch-size": ["64"],
        "--metrics": [],
    }


def test_device_names_are_those_that_the_binary_prints() -> None:
    words.require_devices("none", [])
    words.require_devices("ROCm0,ROCm1", ["ROCm0", "ROCm1", "ROCm2"])
    with pytest.raises(UsageError, match=r"\(ROCm0\), found 'ROCm1'"):
        words.require_devices("ROCm0,ROCm1", ["ROCm0"])
