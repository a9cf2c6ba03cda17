"""Edit a llama.cpp tree (b10019) so that environment variables switch the article's workarounds.

    python tests/gpu/toggles.py TREE

One build then measures them all. For measuring only; without the variables it is the stock tree.

| variable | effect |
|---|---|
| KEYELAB_MMF_OFF=1 | mul_mat_f is never chosen, as the rule mmf-off does |
| KEYELAB_FORCE_MMQ=1 | what -DGGML_CUDA_FORCE_MMQ=ON does, at its place |
| KEYELAB_SPARSE=top_k, argsort | each layer attends to the best 2,048 tokens: scores of one head (first query head, first key head), top-k by that operation, the others masked as llama.cpp's DeepSeek-V3.2 graph does |
| KEYELAB_NARROW_TOP_K=1 | TOP_K and ARGSORT of over 1,024 columns are refused by the card, as every HIP build of b10019 does: the CPU computes them |
"""  # noqa: E501

from __future__ import annotations

import sys
from pathlib import Path

CUDA = "ggml/src/ggml-cuda/"
SPARSE = """\
    ggml_tensor * mask = kq_mask;
    if (const char * picker = getenv("KEYELAB_SPARSE")) {
        const int64_t cached = k->ne[2], batch = q->ne[2], kept = std::min<int64_t>(2048, cached);
        GGML_ASSERT(k->ne[3] == 1);
        ggml_tensor * keys    = ggml_view_2d(ctx0, k, k->ne[0], cached, k->nb[2], 0);
        ggml_tensor * queries = ggml_cont(ctx0, ggml_view_2d(ctx0, q, q->ne[0], batch, q->nb[2], 0));
        ggml_tensor * scores  = ggml_mul_mat(ctx0, keys, queries);
        ggml_tensor * future  = ggml_reshape_2d(ctx0, kq_mask, cached, batch);
        if (future->type != GGML_TYPE_F32) {
            future = ggml_cast(ctx0, future, GGML_TYPE_F32);
        }
        scores = ggml_add(ctx0, scores, future);
        ggml_tensor * best = strcmp(picker, "argsort") == 0
            ? ggml_argsort_top_k(ctx0, scores, kept) : ggml_top_k(ctx0, scores, kept);
        best = ggml_cont(ctx0, best);
        ggml_tensor * none = ggml_fill(ctx0, kq_mask, -INFINITY);
        none = ggml_view_3d(ctx0, none, 1, cached, batch, none->nb[0], none->nb[1], 0);
        ggml_tensor * open = ggml_fill(ctx0, ggml_new_tensor_3d(ctx0, GGML_TYPE_F32, 1, kept, batch), 0.0f);
        open = ggml_set_rows(ctx0, none, open, best);
        open = ggml_view_4d(ctx0, open, cached, batch, 1, 1, open->nb[2], open->nb[2]*batch, open->nb[2]*batch, 0);
        mask = ggml_add(ctx0, open, kq_mask);
    }

"""  # noqa: E501
ATTENTION = "build_attn_mha(q, k, v, kq_b, %s, sinks, v_mla, kq_scale, il);\n"
EDITS = [  # (file, text that stands there once after `after`, what to put in its place, after)
    (
        CUDA + "mmf.cu",
        "    if (ggml_is_quantized(type)) {\n",
        '    if (getenv("KEYELAB_MMF_OFF")) {\n        return false;\n    }\n'
        "    if (ggml_is_quantized(type)) {\n",
        "bool ggml_cuda_should_use_mmf(",
    ),
    (
        CUDA + "mmq.cu",
        "#ifdef GGML_CUDA_FORCE_MMQ\n",
        '    if (getenv("KEYELAB_FORCE_MMQ")) {\n        return true;\n    }\n'
        "#ifdef GGML_CUDA_FORCE_MMQ\n",
        "bool ggml_cuda_should_use_mmq(",
    ),
    (
        CUDA + "ggml-cuda.cu",
        "        case GGML_OP_ARGSORT:\n#ifndef GGML_CUDA_USE_CUB\n",
        '        case GGML_OP_ARGSORT:\n            if (getenv("KEYELAB_NARROW_TOP_K")) {\n'
        "                return op->src[0]->ne[0] <= 1024;\n            }\n"
        "#ifndef GGML_CUDA_USE_CUB\n",
        "static bool ggml_backend_cuda_device_supports_op(",
    ),
    (
        "src/llama-graph.cpp",
        "    ggml_tensor * cur = " + ATTENTION % "kq_mask",
        SPARSE + "    ggml_tensor * cur = " + ATTENTION % "mask",
        "        llm_graph_input_attn_kv * inp,\n",
    ),
]
HEADS = {
    "src/llama-graph.cpp": "#include <algorithm>\n#include <cstdlib>\n#include <cstring>\n",
    CUDA + "mmf.cu": "#include <cstdlib>\n",
    CUDA + "mmq.cu": "#include <cstdlib>\n",
    CUDA + "ggml-cuda.cu": "#include <cstdlib>\n",
}


def apply(tree: Path) -> None:
    """Make all edits, or none: raises SystemExit naming what does not fit."""
    texts: dict[str, str] = {}
    for name, old, new, after in EDITS:
        text = texts.get(name) or HEADS[name] + (tree / name).read_text(encoding="utf-8")
        first, begin, rest = text.partition(after)
        if not begin or old not in rest:
            raise SystemExit(f"expected {old.strip()!r} after {after.strip()!r} in {tree / name}")
        texts[name] = first + begin + rest.replace(old, new, 1)
    for name, text in texts.items():
        (tree / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    apply(Path(sys.argv[1]))
