from __future__ import annotations

import os
from pathlib import Path

import pytest

from keyelab.errors import KeyelabError, UsageError
from keyelab.serving import flags


def test_flags_are_read_with_all_their_spellings(program: Path) -> None:
    known = flags.of(program, os.environ)
    spellings = {"-h", "--help", "-lv", "--log-verbosity", "--no-mmap", "-cram", "--spec-type"}
    assert spellings <= known
    assert "--not-a-flag" not in known
    assert "none" not in known


def test_unknown_extra_argument_is_named_with_a_close_one() -> None:
    with pytest.raises(UsageError, match=r"holds --no-mmpa.*did you mean --no-mmap"):
        flags.check_extra(["--no-mmpa"], {"--no-mmap", "--port"})


def test_flag_and_value_in_one_word_is_refused() -> None:
    with pytest.raises(UsageError, match="--threads-batch=4"):
        flags.check_extra(["--threads-batch=4"], {"--threads-batch"})


def test_values_are_not_taken_for_flags() -> None:
    flags.check_extra(["-ngl", "-1", "-ot", "exps=CPU"], {"-ngl", "-ot"})


def test_argument_that_a_parameter_sets_is_refused() -> None:
    with pytest.raises(UsageError, match=r"serve\.port sets"):
        flags.check_extra(["--port", "8082"], {"--port"})
    with pytest.raises(UsageError, match="02_model_fetch"):
        flags.check_extra(["-m", "x.gguf"], {"-m"})


def test_api_key_never_stands_in_the_command() -> None:
    with pytest.raises(UsageError) as error:
        flags.check_extra(["--api-key", "hidden-value"], {"--api-key"})
    assert "hidden-value" not in str(error.value)
    assert "LLAMA_API_KEY" in error.value.hint


def test_absent_binary_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(KeyelabError, match="expected llama-server at") as error:
        flags.of(tmp_path / "llama-server", os.environ)
    assert error.value.hint == "build it: keyelab run --to build"


def test_binary_that_does_not_run_is_told(tmp_path: Path) -> None:
    broken = tmp_path / "llama-server"
    broken.write_text("#!/bin/sh\necho libggml.so.0: cannot open shared object file; exit 127\n")
    broken.chmod(0o755)
    with pytest.raises(KeyelabError, match="status 127: libggml"):
        flags.of(broken, os.environ)
