from __future__ import annotations

import pytest

from keyelab.serving import cause

CORRUPT = """\
0.00.002.509 W srv  llama_server: this can be a security risk (cross-origin attacks)
0.00.003.820 I srv    load_model: loading model 'x.gguf'
0.00.004.233 E llama_model_load: error loading model: tensor 'token_embd.weight' data is not \
within the file bounds, model is corrupted or incomplete
0.00.004.274 E llama_model_load_from_file_impl: failed to load model
0.00.004.329 E common_fit_params: encountered an error while trying to fit params to free device \
memory: failed to load model
"""
WRONG_PROJECTOR = """\
0.00.003.854 I srv    load_model: loading model 'x.gguf'
0.00.004.154 E mtmd_get_memory_usage: error: Failed to load CLIP model from x.gguf

0.00.013.229 E srv    load_model: failed to load multimodal model, 'x.gguf'
"""
WARM_UP = """\
1.50.000.000 E ggml_backend_cuda_buffer_type_alloc_buffer: allocating 4514.05 MiB on device 0: \
cudaMalloc failed: out of memory
2.05.000.000 I srv  llama_server: model loaded
2.05.000.010 I srv  llama_server: server is listening on http://127.0.0.1:8082
"""


@pytest.mark.parametrize(
    ("log", "line", "remedy"),
    [
        (CORRUPT, "llama_model_load: error loading model: tensor", "model_fetch"),
        (WRONG_PROJECTOR, "mtmd_get_memory_usage: error: Failed to load CLIP model", "mmproj_file"),
        ("0.00.004.213 E llama_model_load: error: unsupported model architecture: 'clip'\n",
         "llama_model_load", "model_fetch.model_file"),
        ("gguf_init_from_file: failed to open GGUF file 'x' (No such file)", "gguf", "model_fetch"),
        ("error: invalid argument: --nope\n", "error: invalid argument: --nope", "extra_args"),
        ("0.00.001.000 E srv start: couldn't bind HTTP server socket", "srv start", "serve.port"),
    ],
)  # fmt: skip
def test_known_cause_is_quoted_with_its_remedy(log: str, line: str, remedy: str) -> None:
    found, advice = cause.first(log)
    assert found.startswith(line)
    assert remedy in advice


def test_unknown_error_is_the_first_error_line_without_a_guess() -> None:
    log = "0.00.001.000 I a\n0.00.001.001 E b: went wrong\n0.00.001.002 I c\n"
    assert cause.first(log) == ("b: went wrong", "")


def test_without_an_error_the_last_line_is_quoted() -> None:
    assert cause.first("one\ntwo\n\n") == ("two", "")
    assert cause.first("") == ("its log is empty", "")


def test_warm_up_failure_is_grave_although_it_listens() -> None:
    errors = cause.errors(WARM_UP)
    assert len(errors) == 1
    assert cause.grave(errors) == errors
    assert cause.grave(["some other error"]) == []
