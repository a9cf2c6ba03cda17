"""The first cause is named, once, wherever it hides and however large the log is."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from keyelab.diagnose import Report, diagnose
from keyelab.errors import KeyelabError

GOOD = "[1/9] Building CXX object common/CMakeFiles/common.dir/chat.cpp.o\n"
KILLED = "clang++: error: unable to execute command: Killed\n"


def ids(report: Report) -> list[str]:
    return [found.entry.id for found in report.causes]


def test_a_flood_of_the_linker_is_one_diagnosis_with_its_count() -> None:
    flood = "".join(
        f"/usr/bin/ld: norm.o: in function `f{n}': undefined reference to `ggml_op_{n}'\n"
        for n in range(900)
    )
    report = diagnose(GOOD * 20 + flood + "collect2: error: ld returned 1 exit status\n")
    assert ids(report) == ["undefined-symbol"]
    assert report.cause is not None
    assert (report.cause.count, report.cause.line.number) == (900, 21)
    assert report.cause.values["symbol"] == [f"ggml_op_{n}" for n in range(5)]
    assert "900 lines like it" in str(report)
    assert len(str(report).splitlines()) < 25


def test_a_kill_that_megabytes_of_good_lines_hide_is_found_with_its_number() -> None:
    report = diagnose(GOOD * 30_000 + KILLED + GOOD * 30_000)
    assert ids(report) == ["compiler-killed"]
    assert report.cause is not None
    assert report.cause.line.number == 30_001
    assert report.lines == 60_001
    assert report.failed


def test_the_first_of_two_causes_stands_first_and_errors_before_warnings() -> None:
    log = (
        "warning: failed to mlock 10-byte buffer: Cannot allocate memory\n"
        "ld: cannot find -lhipblas\n"
        "fatal error: error writing to /tmp/x.s: No space left on device\n"
    )
    assert ids(diagnose(log)) == ["link-library-not-found", "disk-full", "mlock"]


def test_an_echo_before_its_cause_in_the_same_log_is_a_cause_of_its_own() -> None:
    fault, bound = "Invalid address access: 0x1\n", "Launch params (512, 1, 1) are larger than "
    bound += "launch bounds (256) for kernel k\n"
    assert ids(diagnose(bound + fault)) == ["launch-bounds"]
    assert ids(diagnose(fault + bound)) == ["vm-fault", "launch-bounds"]


def test_a_clients_error_is_explained_by_the_servers_log() -> None:
    client = "requests.exceptions.ConnectionError: ('Connection aborted.', RemoteDisconnected())"
    server = 'GGML_ASSERT(x && "non-causal attention requires n_ubatch >= n_tokens") failed\n'
    assert ids(diagnose([client, server])) == ["ubatch-too-small"]
    alone = diagnose(client)
    assert (ids(alone), alone.failed, alone.known) == ([], True, False)
    assert "its own log says why" not in str(alone).splitlines()[0]
    assert "keyelab diagnose records/" in str(alone)


def test_the_kernels_own_log_explains_the_kill() -> None:
    journal = "Nov 30 21:00:01 node7 kernel: [ 81.2] Out of memory: Killed process 42 (cc1plus)\n"
    report = diagnose([KILLED, journal])
    assert ids(report) == ["oom-killer"]
    assert report.cause is not None
    assert report.cause.title == "The kernel killed cc1plus for lack of memory"


def test_the_unknown_is_said_to_be_unknown_with_the_lines_that_tell_most() -> None:
    log = GOOD * 5 + "FAILED: [code=1] x.o\nx.cpp:7:9: error: no member named 'q' in 'w'\n"
    report = diagnose(log + "ninja: build stopped: subcommand failed.\n" + GOOD)
    assert report.cause is None
    assert report.failed
    assert [line.number for line in report.unlisted()] == [6, 7]
    assert "The cause is not known" in str(report)
    assert "text:7  x.cpp:7:9: error: no member named 'q'" in str(report)


def test_an_unknown_error_before_a_known_one_is_shown_beside_it() -> None:
    log = "x.cpp:7:9: error: no member named 'q' in 'w'\nundefined reference to `ggml_init'\n"
    report = diagnose(log + "y.cpp:1:1: error: this one came later\n")
    assert ids(report) == ["undefined-symbol"]
    assert [line.number for line in report.unlisted()] == [1]
    assert "not in the catalogue" in str(report)


def test_the_same_unknown_error_again_and_again_is_told_once() -> None:
    report = diagnose("".join(f"a.cpp:{n}:1: error: no such thing\n" for n in range(1, 99)))
    assert [line.number for line in report.unlisted()] == [1]


@pytest.mark.parametrize(
    "line",
    [
        "c++: fatal error: Killed signal terminated program cc1plus",
        "g++: internal compiler error: Killed (program cc1plus)",
        "/bin/sh: line 1: 123456 Killed                  /opt/dtk/llvm/bin/clang++ -c x.cpp",
        "collect2: fatal error: ld terminated with signal 9 [Killed]",
        "nvcc error   : 'cicc' died due to signal 9 (Kill signal)",
        "Killed",
        "gmake[2]: *** [x.o] Error 137",
        "FAILED: [code=137] CMakeFiles/x.dir/x.cpp.o",
        "[1]+  Killed                  cmake --build build",
    ],
)
def test_a_killed_compiler_is_known_in_every_wording(line: str) -> None:
    assert ids(diagnose(line)) == ["compiler-killed"]


@pytest.mark.parametrize(
    "line",
    [
        "ROCm error: invalid device function",
        "HIP error: device kernel image is invalid",
        "Error: hipGetSymbolAddress(x): invalid kernel file (218)",
        "hipErrorNoBinaryForGpu: Unable to find code object for all current devices!",
        "CUDA error: no kernel image is available for execution on the device",
        "HIP error: shared object initialization failed",
    ],
)
def test_a_kernel_that_does_not_load_is_known_in_every_wording(line: str) -> None:
    assert ids(diagnose(line)) == ["kernel-not-loadable"]


@pytest.mark.parametrize(
    "line",
    [
        '{"type":"exceed_context_size_error","n_prompt_tokens":9001,"n_ctx":4096}',
        '{"message": "the request exceeds the available context size.", '
        '"n_prompt_tokens": 9001, "n_ctx": 4096}',
        "error: request (9001 tokens) exceeds the available context size (4096 tokens)",
    ],
)
def test_a_context_exceeded_is_known_in_every_wording_with_both_numbers(line: str) -> None:
    report = diagnose(line)
    assert ids(report) == ["context-exceeded"]
    assert "(9001 tokens)" in str(report)
    assert "(4096)" in str(report)


def test_a_phase_leaves_its_own_entries() -> None:
    log = "ld: cannot find -lhipblas\nE srv start: couldn't bind HTTP server socket, port: 80\n"
    assert ids(diagnose(log, phase="start")) == ["port-taken"]
    assert ids(diagnose(log, phase="link")) == ["link-library-not-found"]


def test_files_streams_bytes_and_text_are_read_alike(tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    path.write_text(KILLED)
    with path.open("rb") as stream:
        sources = [path, stream, KILLED, KILLED.encode(), io.BytesIO(KILLED.encode())]
        assert [ids(diagnose(source)) for source in sources] == [["compiler-killed"]] * 5
    report = diagnose([path, KILLED, KILLED])
    assert report.cause is not None
    assert report.cause.count == 3
    assert report.sources[1:] == ["text", "text (2)"]


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(KeyelabError, match=r"expected a log at .*none\.log"):
        diagnose(tmp_path / "none.log")


def test_an_empty_log_is_nothing() -> None:
    report = diagnose(b"")
    assert (report.failed, report.lines, report.causes) == (False, 0, [])


@pytest.mark.parametrize("level", ["E", "\x1b[31mE \x1b[0m"])
def test_an_error_level_of_llama_cpp_tells_without_the_word(level: str) -> None:
    log = f"0.00.001.000 I a\n0.00.001.001 {level} b: went wrong\n0.00.001.002 I c\n"
    report = diagnose(log)
    assert [line.text.strip() for line in report.unlisted()] == ["b: went wrong"]
    assert report.failed


def test_a_symptom_alone_is_not_a_known_cause_and_still_gives_a_step() -> None:
    report = diagnose("0.00.004.154 E srv: exiting due to model loading error\n")
    assert (report.known, report.failed) == (False, True)
    assert "run its command by hand" in report.hint


def test_a_projector_that_is_not_loaded_is_a_cause_only_where_nothing_before_it_is() -> None:
    line = "0.00.004.154 E mtmd: error: Failed to load CLIP model from x.gguf\n"
    report = diagnose(line)
    assert report.cause is not None
    assert "mmproj_file" in report.hint
    before = diagnose("cudaMalloc failed: out of memory\n" + line)
    assert [found.entry.id for found in before.causes] == ["gpu-memory"]
    assert [found.entry.id for found in before.echoes] == ["clip-not-loaded"]
