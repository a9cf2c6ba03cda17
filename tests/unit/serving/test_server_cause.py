from __future__ import annotations

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


def test_damaged_model_is_to_be_fetched_again() -> None:
    found = cause.first(CORRUPT)
    assert found is not None
    assert found.line.startswith("llama_model_load: error loading model: tensor")
    assert "model_fetch" in found.remedy


def test_wrong_projector_is_named() -> None:
    found = cause.first(WRONG_PROJECTOR)
    assert found is not None
    assert "Failed to load CLIP model" in found.line
    assert "mmproj_file" in found.remedy


def test_swapped_files_are_an_unknown_architecture() -> None:
    found = cause.first(
        "0.00.004.213 E llama_model_load: error loading model: unsupported model architecture: "
        "'clip'\n"
    )
    assert found is not None
    assert "model_fetch.model_file" in found.remedy


def test_unknown_argument_and_taken_port_have_remedies() -> None:
    argument = cause.first("error: invalid argument: --nope\n")
    port = cause.first("0.00.01.0 E srv start: couldn't bind HTTP server socket, port: 8082\n")
    assert argument is not None
    assert "extra_args" in argument.remedy
    assert port is not None
    assert "serve.port" in port.remedy


def test_unknown_error_is_the_first_error_line_without_a_guess() -> None:
    found = cause.first("0.00.001.000 I a\n0.00.001.001 E b: went wrong\n0.00.001.002 I c\n")
    assert found == cause.Cause("b: went wrong", "")


def test_without_an_error_the_last_line_is_quoted() -> None:
    assert cause.first("one\ntwo\n\n") == cause.Cause("two", "")
    assert cause.first("") is None


def test_warm_up_failure_is_grave_although_it_listens() -> None:
    errors = cause.errors(WARM_UP)
    assert len(errors) == 1
    assert cause.grave(errors) == errors
    assert cause.grave(["some other error"]) == []
