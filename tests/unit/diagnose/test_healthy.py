"""Logs in which nothing is wrong: the catalogue is silent."""

from __future__ import annotations

from pathlib import Path

import pytest

from keyelab.diagnose import diagnose
from keyelab.diagnose.entry import catalogue
from keyelab.perf.reader import ARTICLE_LOG

HEALTHY = sorted((Path(__file__).parents[2] / "data" / "diagnose" / "healthy").iterdir())


@pytest.mark.parametrize("log", [ARTICLE_LOG, *HEALTHY], ids=lambda log: log.name)
def test_a_healthy_log_has_no_finding(log: Path) -> None:
    report = diagnose(log)
    assert not report.failed
    assert [finding.entry.id for finding in report.causes] == []
    assert report.lines == len(log.read_bytes().splitlines())
    assert str(report) == f"Nothing known to be wrong in {report.lines} lines."


def test_what_the_scan_takes_for_common_is_healthy() -> None:
    assert not diagnose(catalogue().common).failed


LOOK_ALIKES = [
    '+    message(FATAL_ERROR "At least ROCM/HIP V6.1 is required")',
    "-- Could NOT find OpenSSL, try to set the path (missing: OPENSSL_CRYPTO_LIBRARY)",
    "-- Performing Test GGML_COMPILER_SUPPORTS_FP16_FORMAT_I3E - Failed",
    "-- Looking for sgemm_ - not found",
    "    LLAMA_BUILD_WEBUI",
    "-- GPU_TARGETS: gfx928",
    "  -DGGML_HIP=ON -DGPU_TARGETS=gfx928",
    "c++ -O3 -Werror=implicit-function-declaration -o ggml-error.o -c ggml-error.c",
    "[12/240] Building CXX object common/CMakeFiles/common.dir/error.cpp.o",
    "0.00.1 I slot release: id 0 | task 0 | stop processing: n_tokens = 19, truncated = 0",
    "srv stop: cancel task, id_task = 343",
    "  MUL_MAT(type_a=f32,type_b=f32,m=16,n=16): not supported [ROCm0]",
    "  SOFT_MAX(type=f32,ne=[0,2,1,1],mask=0): OK",
    '    printf("%s:%d: ERROR: HIP kernel %s has no device code compatible with HIP arch %d.\\n"',
    "0.00.1 I load_tensors: offloaded 49/49 layers to GPU",
    "warning: unused variable 'failed' [-Wunused-variable]",
    "0.00.1 W srv llama_server: CORS is set to allow all origins ('*') and no API key is set",
    "the process was Killed by nobody",
]


@pytest.mark.parametrize("line", LOOK_ALIKES)
def test_what_only_looks_alike_is_no_finding(line: str) -> None:
    report = diagnose(line + "\n")
    assert [finding.entry.id for finding in (*report.causes, *report.echoes)] == []


def test_every_look_alike_text_of_an_entry_keeps_it_silent() -> None:
    for entry in catalogue().entries:
        for text in entry.not_:
            assert entry.matches(f"{entry.example} {text}") is None, entry.id
