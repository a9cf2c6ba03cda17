from __future__ import annotations

from keyelab.serving import environment

GIVEN = {
    "PATH": "/bin",
    "LD_LIBRARY_PATH": "/opt/dtk/lib",
    "LC_ALL": "C.UTF-8",
    "HIP_VISIBLE_DEVICES": "0,1",
    "GGML_CUDA_DISABLE_GRAPHS": "1",
    "LLAMA_ARG_HOST": "0.0.0.0",
    "LLAMA_LOG_FILE": "elsewhere",
    "http_proxy": "http://proxy",
    "LD_PRELOAD": "x.so",
    "HF_TOKEN": "t",
    "CUDA_API_KEY": "k",
    "LLAMA_API_KEY": "k",
    "JPY_SESSION_NAME": "n",
}
KEPT = {"PATH", "LD_LIBRARY_PATH", "LC_ALL", "HIP_VISIBLE_DEVICES", "GGML_CUDA_DISABLE_GRAPHS"}


def test_paths_locale_and_device_variables_are_kept_and_nothing_else() -> None:
    assert set(environment.chosen(GIVEN, "key.txt")) == KEPT


def test_key_goes_in_only_where_no_file_holds_it() -> None:
    assert set(environment.chosen(GIVEN)) == KEPT | {"LLAMA_API_KEY"}
    assert "LLAMA_API_KEY" not in environment.chosen({**GIVEN, "LLAMA_API_KEY": ""})
