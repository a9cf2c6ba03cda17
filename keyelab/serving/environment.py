"""The environment of a server: chosen names, not whatever the notebook happened to have.

| names | why |
|---|---|
| PATH, HOME, TMPDIR, XDG_CACHE_HOME | programs (ffmpeg), and where drivers cache kernels |
| LANG, LC_…, TZ | what its messages look like |
| LD_LIBRARY_PATH | libraries of the toolkit |
| HIP_, HSA_, ROCR_, CUDA_, GGML_, … | which devices and which kernels are used |
| OMP_, GOMP_, KMP_ | threads of a CPU build |
| LLAMA_API_KEY | only when no key file is named: with one, both keys would be accepted |

Left out, among others: LLAMA_ARG_… and LLAMA_LOG_…, which set flags that no record shows; proxy
variables, which would send away what the server fetches from this machine; LD_PRELOAD; tokens.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from keyelab.apikey import VARIABLE

_NAMES = re.compile(
    r"PATH|HOME|TMPDIR|XDG_CACHE_HOME|LANG|LC_\w+|TZ|LD_LIBRARY_PATH|MTMD_BACKEND_DEVICE"
    r"|(?:HIP|HIPBLASLT|HSA|ROCR|ROCM|ROCBLAS|MIOPEN|AMD|GPU|HYHAL|DTK|OCL|CUDA|NVIDIA|NCCL|RCCL"
    r"|GGML|OMP|GOMP|KMP)_\w+"
)
_SECRET = re.compile(r"KEY|TOKEN|SECRET|PASSW", re.IGNORECASE)


def chosen(env: Mapping[str, str], api_key_file: str = "") -> dict[str, str]:
    """The part of an environment that a server gets."""
    kept = {n: v for n, v in env.items() if _NAMES.fullmatch(n) and not _SECRET.search(n)}
    if not api_key_file and env.get(VARIABLE):
        kept[VARIABLE] = env[VARIABLE]
    return kept
