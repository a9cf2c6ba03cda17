"""What the host starts and what the device compiles, for each family of ggml's kernels."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace
from typing import Any

from keyelab.patching.cuda.syntax import Unreadable, text_of
from keyelab.patching.cuda.values import Symbol
from keyelab.patching.predicates import Code

Verdict = tuple[str, str, str]  # the host in words, the device, and what is wrong: empty when not
Row = tuple[Symbol, int, bool]  # of an mmq table: type, columns J, fallback
_ROW = ("type", "J", "fallback", "nthreads")
_FLOATS = {"F32": 4, "F16": 2, "BF16": 2}  # bytes a value
_TOKENS = (1, 4, 8, 16, 64, 512)
_HEADS = (64, 72, 80, 96, 112, 128, 256)  # values an attention head; Keye: text 128, vision 72
# attention kernels by the host's enumerator: file and name of the device's function
_ATTENTION = {
    "MMA_F16": ("fattn-mma-f16.cuh", "flash_attn_ext_f16"),
    "WMMA_F16": ("fattn-wmma-f16.cu", "flash_attn_ext_f16"),
    "TILE": ("fattn-tile.cuh", "flash_attn_tile"),
    "VEC": ("fattn-vec.cuh", "flash_attn_ext_vec"),
}


@dataclass(frozen=True)
class Sides:
    """The two passes; `cc` is the host's number of the chip, `lanes` those of its wavefront."""

    host: Code
    device: Code
    cc: int
    lanes: int

    def including(self, file: str) -> Sides:
        """Both sides with one more file."""
        host, device = self.host.including(file), self.device.including(file)
        return Sides(host, device, self.cc, self.lanes)


def _span(values: Collection[int]) -> str:
    low, high = min(values), max(values)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def _launches(pairs: Collection[tuple[int, int]]) -> tuple[str, str, str]:
    """The threads, the bounds and what is wrong with launches of (threads, bound)."""
    if not pairs:
        raise Unreadable("no launch was found")
    started, bounds = (_span(side) for side in zip(*pairs, strict=True))
    above = sum(threads > bound for threads, bound in pairs)
    below = sum(threads < bound for threads, bound in pairs)
    why = ""
    if above:
        why = (
            f"{above} of {len(pairs)} cases start more threads than the bound: refused or undefined"
        )
    elif below:
        why = f"{below} of {len(pairs)} cases start fewer threads than are compiled for"
    return started, bounds, why


def _bound(code: Code, kernel: str, **template: Any) -> int:
    bound = code.bound(kernel, **template)
    if bound is None:
        raise Unreadable(f"{kernel} has no launch bounds")
    return bound


def _mmf(sides: Sides) -> Verdict:
    def chosen(name: str, experts: bool) -> bool:
        size = _FLOATS[name]
        sides.host.given |= {
            "ggml_is_quantized": lambda type_: False,
            "ggml_type_size": lambda type_: size,
        }
        return any(
            sides.host.result(
                "ggml_cuda_should_use_mmf",
                type=Symbol(f"GGML_TYPE_{name}"),
                cc=sides.cc,
                warp_size=sides.lanes,
                src0_ne=[4096] * 4,
                src0_nb=[size] + [4096 * size] * 3,
                src1_ncols=tokens,
                mul_mat_id=experts,
            )
            for tokens in _TOKENS
        )

    plain = [name for name in _FLOATS if chosen(name, False)]
    moe = [f"{name} with experts" for name in _FLOATS if chosen(name, True)]
    empty = [k for k in ("mul_mat_f", "mul_mat_f_ids") if sides.device.without_code(k)]
    return (
        f"chosen for {', '.join(plain + moe)}" if plain + moe else "not chosen",
        "no device code" if empty else "compiled",
        f"{' and '.join(empty)} stop with 'no device code'" if plain + moe and empty else "",
    )


def _mmq(sides: Sides) -> Verdict:
    host, device = sides.host, sides.device
    if "mmq_get_nwarps_device" in device.functions:  # before there were tables
        warps = host.result("mmq_get_nwarps_host", cc=sides.cc, warp_size=sides.lanes)
        lanes = device.result("ggml_cuda_get_physical_warp_size")
        compiled = device.result("mmq_get_nwarps_device") * lanes
        bound = device.bound("mul_mat_q")
        least = compiled if bound is None else min(bound, compiled)
        started, _, why = _launches([(warps * sides.lanes, least)])
        has = "no explicit bound" if bound is None else f"bound {bound:,}"
        return f"{started} threads", f"compiled for {compiled:,}, {has}", why
    rows = set().union(*_answer_tables(host), *_answer_tables(device))
    pairs, tables = [], set()
    for type_, j, fallback in rows:
        row = {"type": type_, "J": j, "fallback": fallback, "prec_src1": Symbol("GGML_PREC_Q8")}
        mine = host.result("ggml_cuda_mmq_get_config", **row, cc=sides.cc)
        if mine.nthreads:
            theirs = device.result("ggml_cuda_mmq_get_config", **row)
            pairs.append((mine.nthreads, _bound(device, "mul_mat_q", **row)))
            tables.add((mine.table, theirs.table))
    started, bounds, why = _launches(pairs)
    names = [" and ".join(sorted(set(side))) for side in zip(*tables, strict=True)]
    differ = "" if all(mine == theirs for mine, theirs in tables) else "the tables differ"
    return (
        f"{names[0]} table, {started} threads",
        f"{names[1]} table, bound {bounds}",
        why or differ,
    )


def _answer_tables(code: Code) -> list[dict[Row, int]]:
    """The threads of each row of each table in mmq-config-*.cuh.

    From then on `code` answers a call of a table by its name and the threads of the row, 0 where
    there is no row; the source would compare row by row.
    """
    columns = code.function("ggml_cuda_mmq_config").names
    prefix = "ggml_cuda_mmq_get_config_"

    def answer(table: str, rows: dict[Row, int], type_: Symbol, j: int, fallback: bool) -> Any:
        return SimpleNamespace(table=table, nthreads=rows.get((type_, j, fallback), 0))

    tables = []
    for name in [n for n in code.functions if n.startswith(prefix)]:
        rows = {}
        for statement in code.function(name).body.named_children:
            if found := re.match(r"CASE\((.*)\)", text_of(statement)):
                cells = dict(zip(columns, found[1].split(","), strict=True))
                type_, j, fallback, threads = map(code.evaluate, map(cells.__getitem__, _ROW))
                rows[type_, j, fallback] = threads
        tables.append(rows)
        code.given[name] = partial(answer, name.removeprefix(prefix), rows)
    return tables


def _types(sides: Sides) -> list[Symbol]:
    text = text_of(sides.device.function("get_vdr_mmvq").body)
    return [Symbol(name) for name in sorted(set(re.findall(r"GGML_TYPE_\w+", text)))]


def _mmvq(sides: Sides) -> Verdict:
    table = sides.host.result("get_device_table_id", cc=sides.cc)
    other = sides.device.result("get_device_table_id")
    off = {"has_fusion": False, "small_k": False, "halve_iters": False}
    pairs = {}
    for type_ in _types(sides):
        for columns in range(1, 9):
            known = {"type": type_, "ncols_dst": columns}
            warps = sides.host.result("calc_nwarps", **known, table_id=table)
            bound = _bound(sides.device, "mul_mat_vec_q", **known, **off)
            pairs[columns, type_] = (warps * sides.lanes, bound)
    _, _, why = _launches(pairs.values())
    one = [pair for (columns, _), pair in pairs.items() if columns == 1]
    started, bounds, _ = _launches(one)
    if all(threads < bound for threads, bound in one):
        why += "; sums that no thread wrote are added, without a message"
    names = [t.name.removeprefix("MMVQ_PARAMETERS_") for t in (table, other)]
    return (
        f"{names[0]} table, {started} threads for one column",
        f"{names[1]} table, bound {bounds}",
        why or ("" if table == other else "the tables differ"),
    )


def _moe(sides: Sides) -> Verdict:
    pairs = []
    for type_ in _types(sides):
        tokens = sides.host.result("get_mmvq_mmid_max_batch", type=type_, cc=sides.cc)
        pairs.append((tokens * sides.lanes, _bound(sides.device, "mul_mat_vec_q_moe", type=type_)))
    started, bounds, why = _launches(pairs)
    if all(threads <= bound for threads, bound in pairs) and why:
        why += "; each token has its own wavefront, so this one costs registers and not results"
    return f"at most {started} threads", f"bound {bounds}", why


def _attention(sides: Sides) -> Verdict:
    sides.host.given |= {
        "ggml_is_quantized": lambda type_: False,
        "ggml_cuda_info": lambda: SimpleNamespace(devices=[SimpleNamespace(cc=sides.cc)]),
    }

    def chosen(head: int, tokens: int) -> str:
        node = _attention_node(head, tokens)
        kernel = sides.host.result("ggml_cuda_get_best_fattn_kernel", device=0, dst=node)
        return str(kernel.name.removeprefix("BEST_FATTN_KERNEL_"))

    kernels = {chosen(head, tokens) for head in _HEADS for tokens in _TOKENS} - {"NONE"}
    empty = []
    for kernel in sorted(kernels):
        if kernel not in _ATTENTION:
            raise Unreadable(f"the attention kernel {kernel} is not known")
        file, function = _ATTENTION[kernel]
        if sides.device.including(file).without_code(function):
            empty.append(kernel)
    return (
        f"{chosen(128, 512)} for a prompt, {chosen(128, 1)} for one token",
        f"no device code in {' and '.join(empty)}" if empty else "compiled",
        f"{' and '.join(empty)} stops with 'no device code'" if empty else "",
    )


def _attention_node(head: int, tokens: int) -> SimpleNamespace:
    """A FLASH_ATTN_EXT node in F16: 32 heads on 4, 1,024 tokens in the cache, no ALiBi."""

    def tensor(*ne: int) -> SimpleNamespace:
        return SimpleNamespace(ne=[*ne], nb=[2, 2048, 4096, 8192], type=Symbol("GGML_TYPE_F16"))

    cache = tensor(head, 1024, 4, 1)
    parts = [tensor(head, tokens, 32, 1), cache, cache, tensor(1024, tokens, 1, 1), None]
    return SimpleNamespace(src=parts, op_params=None)


FAMILIES: dict[str, tuple[str, Callable[[Sides], Verdict]]] = {
    "mmf": ("mmf.cu", _mmf),
    "mmq": ("mmq.cu", _mmq),
    "mmvq": ("mmvq.cu", _mmvq),
    "mmvq_moe": ("mmvq.cu", _moe),
    "flash attention": ("fattn.cu", _attention),
}
