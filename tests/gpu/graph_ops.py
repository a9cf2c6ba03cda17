"""Operations of a Keye-like graph, written as a test file for `test-backend-ops --test-file`.

    python tests/gpu/graph_ops.py TREE > graph_ops.txt

The geometry is that of a 30 B model with 3 B active (width 2,048, 32 query and 4 key heads of 128,
128 experts of which 8 are used, expert width 768, vocabulary 151,936) with a vision tower (width
1,152, 16 heads, 1,024 patches). Only operations whose blocks the recipe `article` shrinks, and the
matrix products to compare their cost with.
"""

from __future__ import annotations

import math
import re
import struct
import sys
from collections.abc import Iterator
from pathlib import Path

F32, F16, BF16, I32 = 0, 1, 30, 26
BYTES = {F32: 4, F16: 2, BF16: 2, I32: 4}
WIDTH, HEADS, EXPERTS, USED, EXPERT_WIDTH, VOCABULARY = 2048, 32, 128, 8, 768, 151_936
TOWER, PATCHES, TOWER_HEADS = 1152, 1024, 16
PROMPT = 512  # tokens a batch


def bits(value: float) -> int:
    """A float as the int32 that op_params hold."""
    return int(struct.unpack("<i", struct.pack("<f", value))[0])


def tensor(kind: int, *shape: int) -> str:
    ne = [*shape, 1, 1, 1][:4]
    nb = [BYTES[kind] * math.prod(ne[:dim]) for dim in range(4)]
    return " ".join(map(str, [kind, *ne, *nb]))


def lines(ops: dict[str, int]) -> Iterator[str]:
    def case(op: str, kind: int, shape: tuple[int, ...], params: list[int], *sources: str) -> str:
        ne = [*shape, 1, 1, 1][:4]
        words = [ops[op], kind, *ne, len(params), *params, len(sources), *sources, "-"]
        return " ".join(map(str, words))

    epsilon = [bits(1e-6)]
    yield case("NORM", F32, (TOWER, PATCHES), epsilon, tensor(F32, TOWER, PATCHES))
    for tokens in (1, PROMPT):
        row = (WIDTH, tokens)
        yield case("RMS_NORM", F32, row, epsilon, tensor(F32, *row))
        heads = (128, HEADS, tokens)
        yield case("RMS_NORM", F32, heads, epsilon, tensor(F32, *heads))
        chosen = (EXPERTS, tokens)
        yield case("SOFT_MAX", F32, chosen, [bits(1.0), 0], tensor(F32, *chosen))
        yield case("ARGSORT", I32, chosen, [1], tensor(F32, *chosen))
        yield case("SUM_ROWS", F32, (1, tokens), [], tensor(F32, USED, tokens))
        for context in (512, 1024, 2048, 4096, 13_056):
            scores = (context, tokens, HEADS)
            scale = [bits(1 / math.sqrt(128)), 0]
            yield case("SOFT_MAX", F32, scores, scale, tensor(F32, *scores))
        result = (WIDTH, tokens)
        weights, rows = tensor(BF16, WIDTH, WIDTH), tensor(F32, WIDTH, tokens)
        yield case("MUL_MAT", F32, result, [], weights, rows)
    patches = (PATCHES, PATCHES, TOWER_HEADS)
    yield case("SOFT_MAX", F32, patches, [bits(1 / math.sqrt(72)), 0], tensor(F32, *patches))
    yield case("ARGMAX", I32, (1,), [], tensor(F32, VOCABULARY))


def operations(tree: Path) -> dict[str, int]:
    """The numbers of ggml's operations in a tree, by name without GGML_OP_."""
    text = (tree / "ggml" / "include" / "ggml.h").read_text(encoding="utf-8")
    listed = re.search(r"enum ggml_op \{(.*?)GGML_OP_COUNT,", text, re.DOTALL)
    if not listed:
        raise SystemExit(f"expected enum ggml_op in ggml.h of {tree}")
    names = re.findall(r"^\s*GGML_OP_(\w+)", listed[1], re.MULTILINE)
    return {name: number for number, name in enumerate(names)}


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit("usage: python tests/gpu/graph_ops.py TREE")
    print("\n".join(lines(operations(Path(sys.argv[1])))))
