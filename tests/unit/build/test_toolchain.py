from __future__ import annotations

from pathlib import Path

import pytest

from keyelab.build import toolchain
from keyelab.errors import KeyelabError, ProgramMissing
from keyelab.facts import EnvFacts


def program(folder: Path, name: str, says: str) -> Path:
    folder.mkdir(exist_ok=True, parents=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\n{says}\n")
    path.chmod(0o755)
    return path


def environment(folder: Path) -> dict[str, str]:
    return {"PATH": f"{folder}:/usr/bin:/bin"}


def test_hip_compiler_and_root_come_from_hipconfig_and_both_versions_count(
    tmp_path: Path, env_facts: EnvFacts
) -> None:
    cxx = program(tmp_path, "c++", "echo g++ 12")
    clang = program(tmp_path / "llvm", "clang", "echo dcc 26")
    answers = f'case "$1" in -l) echo {clang.parent};; -R) echo /opt/dtk;; esac'
    program(tmp_path, "hipconfig", answers)
    facts = env_facts.model_copy(update={"cxx": str(cxx)})
    found = toolchain.look("hip", facts, environment(tmp_path))
    assert found.compiler == "g++ 12\ndcc 26"
    assert found.environment == {"CXX": str(cxx), "HIPCXX": str(clang), "HIP_PATH": "/opt/dtk"}


def test_hipconfig_that_is_absent_or_names_no_compiler_is_refused(
    tmp_path: Path, env_facts: EnvFacts
) -> None:
    with pytest.raises(ProgramMissing, match="hipconfig"):
        toolchain.look("hip", env_facts, {"PATH": str(tmp_path)})
    program(tmp_path, "hipconfig", f"echo {tmp_path}")
    with pytest.raises(ProgramMissing, match=f"{tmp_path}/clang"):
        toolchain.look("hip", env_facts, environment(tmp_path))


def test_no_compiler_is_one_sentence_with_its_remedy(env_facts: EnvFacts) -> None:
    with pytest.raises(KeyelabError, match=r"expected a C\+\+ compiler") as error:
        toolchain.look("cpu", env_facts.model_copy(update={"cxx": None}), {})
    assert "install g++" in error.value.hint
