"""The launches of the real trees, against what was read in them by hand."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path

import pytest
import yaml

from keyelab.errors import UsageError
from keyelab.patching.audit import above, launch_checks
from keyelab.patching.launches import Launch, launches
from keyelab.patching.verify import KERNELS

DATA = Path(__file__).parents[2] / "data" / "launches"
KNOWN = yaml.safe_load((DATA / "b10019.yaml").read_text(encoding="utf-8"))
MOVED = yaml.safe_load((DATA / "moved.yaml").read_text(encoding="utf-8"))

read = lru_cache(launches)


def largest(found: list[Launch]) -> dict[str, int]:
    """The largest block of each kernel."""
    sizes: dict[str, int] = {}
    for launch in found:
        name = launch.kernel.partition("<")[0]
        sizes[name] = max(sizes.get(name, 0), launch.threads or 0)
    return sizes


@pytest.mark.source
def test_what_is_above_256_without_a_bound_is_the_known_list(llama_source: Path) -> None:
    found = {(x.file, x.line, x.kernel, x.threads): x.ops for x in above(read(llama_source), 256)}
    known = {tuple(row[:4]): row[4] for row in KNOWN["without_bound"]}
    assert found.keys() == known.keys()
    assert [row for row in known if known[row] not in found[row]] == []


@pytest.mark.source
def test_what_is_above_256_under_a_bound_is_the_known_list(llama_source: Path) -> None:
    large = [x for x in read(llama_source) if x.bound and (x.threads or 0) > 256]
    found = {
        (x.file, x.line, x.kernel.partition("<")[0], x.threads, x.allowed): x.ops for x in large
    }
    known = {(*row[:4], row[5]): row[4] for row in KNOWN["with_bound"]}
    assert found.keys() == known.keys()
    assert [row for row in known if known[row] not in found[row]] == []


@pytest.mark.source
def test_everything_else_is_at_most_256_and_has_the_known_size(llama_source: Path) -> None:
    sizes = largest(read(llama_source))
    assert {name: sizes.get(name) for name in KNOWN["at_most_256"]} == KNOWN["at_most_256"]


@pytest.mark.source
def test_no_launch_is_missed_and_every_size_can_be_told(llama_source: Path) -> None:
    written = {
        (path.relative_to(llama_source / KERNELS).as_posix(), number)
        for path in (llama_source / KERNELS).rglob("*.cu*")
        for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), 1)
        if "<<<" in line or re.search(r"ggml_cuda_kernel_launch\(\w*[a-z]\w*[<,]", line)
    }
    beside = {tuple(place) for part in ("not_compiled", "launchers") for place in KNOWN[part]}
    found = {(launch.file, launch.line) for launch in read(llama_source)}
    assert written - beside - found == set()
    assert beside <= written
    assert [str(launch) for launch in read(llama_source) if launch.threads is None] == []


@pytest.mark.source
def test_the_other_trees_differ_in_the_known_kernels(
    llama_source: Path, upstream_name: str, upstream_tree: Path
) -> None:
    base = largest(above(read(llama_source), 256))
    found = launches(upstream_tree)
    assert largest(above(found, 256)) == base | MOVED[upstream_name]
    _, agree, told = launch_checks(found, 256)
    assert (agree.status, told.status) == ("ok", "ok"), (agree.found, told.found)


@pytest.mark.source
def test_another_chip_has_other_blocks(llama_source: Path) -> None:
    sizes = largest(launches(llama_source, "gfx1030"))  # 32 lanes, no matrix unit
    assert sizes["mul_mat_q"] == 256
    assert sizes["mm_ids_helper"] == 32
    assert sizes["fwht_cuda"] == 128


def test_a_folder_without_kernels_and_a_wrong_chip_are_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"expected a llama\.cpp tree with kernels"):
        launches(tmp_path)
    (tmp_path / KERNELS).mkdir(parents=True)
    (tmp_path / KERNELS / "a.cu").touch()
    with pytest.raises(UsageError, match="expected a name like gfx928, found 'K100'"):
        launches(tmp_path, "K100")
