"""Archives: unpacked inside their folder, or named as what they are."""

from __future__ import annotations

import io
import tarfile
import zipfile
from pathlib import Path

import pytest

from keyelab.errors import KeyelabError
from keyelab.patching.fetch import unpack


@pytest.fixture
def out(tmp_path: Path) -> Path:
    folder = tmp_path / "in" / "out"
    folder.mkdir(parents=True)
    return folder


def tar_with(path: Path, *members: tarfile.TarInfo) -> Path:
    with tarfile.open(path, "w:gz") as tar:
        for member in members:
            tar.addfile(member, io.BytesIO(b"x" * member.size))
    return path


def member(name: str, link: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type = tarfile.SYMTYPE if link else tarfile.REGTYPE
    info.linkname = link
    info.size = 0 if link else 1
    return info


@pytest.mark.parametrize(
    "bad",
    [
        [member("../outside.txt")],
        [member("top/../../outside.txt")],
        [member("link", "../../outside"), member("link/outside.txt")],
        [member("link", ".."), member("link/outside.txt")],
    ],
    ids=["up", "down and up", "through a link", "through a link up"],
)
def test_a_tar_member_that_would_leave_the_folder_is_refused(
    out: Path, tmp_path: Path, bad: list[tarfile.TarInfo]
) -> None:
    archive = tar_with(tmp_path / "a.tar.gz", member("top/good.txt"), *bad)
    with pytest.raises(KeyelabError, match="expected a whole"):
        unpack(archive, out)
    assert [path.name for path in out.parent.iterdir()] == ["out"]
    assert not list(tmp_path.rglob("outside*"))


def test_names_that_begin_at_the_root_stay_inside(out: Path, tmp_path: Path) -> None:
    unpack(tar_with(tmp_path / "a.tar.gz", member("/inside.txt")), out)
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as packed:
        packed.writestr("../also.txt", "x")
    unpack(tmp_path / "a.zip", out)
    assert sorted(path.name for path in out.iterdir()) == ["also.txt", "inside.txt"]
    assert [path.name for path in out.parent.iterdir()] == ["out"]


def test_links_inside_and_executable_bits_are_kept(out: Path, tmp_path: Path) -> None:
    script = member("top/run.sh")
    script.mode = 0o755
    top = unpack(tar_with(tmp_path / "a.tar.gz", script, member("top/sub/link", "../run.sh")), out)
    assert top == out / "top"
    assert (top / "run.sh").stat().st_mode & 0o100
    assert (top / "sub" / "link").read_bytes() == b"x"


def test_a_cut_archive_and_another_kind_of_file_are_named(out: Path, tmp_path: Path) -> None:
    whole = tar_with(tmp_path / "a.tar.gz", *(member(f"top/{n}.txt") for n in range(200)))
    for content in (whole.read_bytes()[:-200], b"<html>not found</html>"):
        whole.write_bytes(content)
        with pytest.raises(KeyelabError, match=r"expected a whole .tar.gz or .zip archive at"):
            unpack(whole, out)
