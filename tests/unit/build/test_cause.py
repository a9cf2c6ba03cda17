from __future__ import annotations

from pathlib import Path

from keyelab.build.cause import first, unused_options

DATA = Path(__file__).parents[2] / "data" / "build"
NINJA = """\
[1/9] Building CXX object a.cpp.o
a.cpp:4:2: warning: unused variable 'error' [-Wunused-variable]
[2/9] Building CXX object fwht.cu.o
FAILED: [code=1] ggml/src/fwht.cu.o
/usr/bin/c++ -DGGML -o fwht.cu.o -c fwht.cu
In file included from fwht.cu:1:
fwht.cu:58:21: error: static assertion failed: The mask must be a 64-bit integer.
   58 |     x = __shfl_xor_sync(0xffffffff, x, 1);
      |         ^~~~
fwht.cu:59:21: error: expected ';'
ninja: build stopped: subcommand failed.
"""


def log(name: str) -> str:
    return (DATA / name).read_text()


def test_killed_compiler_is_the_cause_and_not_the_later_errors() -> None:
    cause = first(log("compiler_killed.log"))
    assert cause is not None
    assert cause.line == "clang++: error: unable to execute command: Killed"
    assert cause.number == 3
    assert "jobs" in cause.remedy


def test_default_arch_list_asks_for_gpu_targets_and_not_for_libraries() -> None:
    cause = first(log("default_arch_list.log"))
    assert cause is not None
    assert "gfx1030" in cause.line
    assert "build.gpu_targets" in cause.remedy
    assert "nogpulib" not in cause.remedy


def test_first_error_of_a_ninja_record_comes_with_context() -> None:
    cause = first(NINJA)
    assert cause is not None
    assert cause.line.startswith("fwht.cu:58:21: error: static assertion")
    assert len(cause.context.splitlines()) == 5
    assert "In file included from fwht.cu:1:" in cause.context


def test_cmake_reason_below_the_error_line_is_part_of_it() -> None:
    cause = first("""-- The HIP compiler identification is Clang
CMake Error at ggml/src/ggml-hip/CMakeLists.txt:55 (message):
  At least ROCM/HIP V6.1 is required


-- Configuring incomplete, errors occurred!
""")
    assert cause is not None
    assert cause.line.endswith("At least ROCM/HIP V6.1 is required")
    assert "recipe" in cause.remedy


def test_gcc_words_for_a_killed_compiler_are_known() -> None:
    cause = first("c++: fatal error: Killed signal terminated program cc1plus\n")
    assert cause is not None
    assert "build.jobs=1" in cause.remedy


def test_full_disk_and_undefined_symbol_are_told_apart() -> None:
    full = first("/tmp/x.s: fatal error: error writing: No space left on device")
    undefined = first("/usr/bin/ld: a.o: undefined reference to `f()'\ncollect2: error: ld")
    assert full is not None
    assert "df -h" in full.remedy
    assert undefined is not None
    assert (undefined.number, undefined.remedy) == (1, "")


def test_failed_command_without_words_is_still_reported() -> None:
    cause = first("[1/2] gen\nFAILED: x.h\n/bin/false\nninja: build stopped: subcommand failed.\n")
    assert cause is not None
    assert cause.line == "FAILED: x.h"


def test_good_log_has_no_cause() -> None:
    assert first(log("old_option_name.log")) is None
    assert first("fatal: not a git repository (or any of the parent directories): .git\n") is None


def test_options_that_cmake_did_not_use_are_listed() -> None:
    assert unused_options(log("old_option_name.log")) == ["AMDGPU_TARGETS", "LLAMA_HIPBLAS"]
    assert unused_options("-- Configuring done\n") == []
