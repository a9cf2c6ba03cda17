"""Archives that are not trusted."""

from __future__ import annotations

import io
import tarfile
import zipfile
from pathlib import Path

import pytest

from keyelab.errors import KeyelabError
from keyelab.files import sha256_file
from keyelab.patching.archive import require_sha256, unpack


def tar_with(path: Path, *members: tarfile.TarInfo) -> Path:
    with tarfile.open(path, "w:gz") as tar:
        for member in members:
            content = b"x" * member.size
            tar.addfile(member, io.BytesIO(content))
    return path


def member(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type = kind
    info.linkname = link
    info.size = 1 if kind == tarfile.REGTYPE else 0
    return info


@pytest.mark.parametrize(
    "bad",
    [
        member("../outside.txt"),
        member("top/../../outside.txt"),
        member("/outside.txt"),
        member("top/link", tarfile.SYMTYPE, "../../outside"),
        member("top/link", tarfile.SYMTYPE, "/etc"),
        member("top/hard", tarfile.LNKTYPE, "../outside"),
        member("top/device", tarfile.CHRTYPE),
        member("top/dot/through-a-link.txt"),
    ],
    ids=lambda info: f"{info.name} {info.linkname}".strip(),
)
def test_a_tar_member_that_would_leave_the_folder_is_refused(
    tmp_path: Path, bad: tarfile.TarInfo
) -> None:
    link = member("top/dot", tarfile.SYMTYPE, ".")
    archive = tar_with(tmp_path / "a.tar.gz", member("top/good.txt"), link, bad)
    with pytest.raises(KeyelabError, match="expected files inside the archive"):
        unpack(archive, tmp_path / "out")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.tar.gz"]


def test_a_zip_member_that_would_leave_the_folder_is_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as packed:
        packed.writestr("top/good.txt", "x")
        packed.writestr("../outside.txt", "x")
    with pytest.raises(KeyelabError, match="refused"):
        unpack(tmp_path / "a.zip", tmp_path / "out")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.zip"]


def test_links_inside_and_executable_bits_are_kept(tmp_path: Path) -> None:
    script = member("top/run.sh")
    script.mode = 0o755
    link = member("top/sub/link", tarfile.SYMTYPE, "../run.sh")
    top = unpack(tar_with(tmp_path / "a.tar.gz", script, link), tmp_path / "out")
    assert top == tmp_path / "out" / "top"
    assert (top / "run.sh").stat().st_mode & 0o100
    assert (top / "sub" / "link").read_bytes() == b"x"


def test_a_zip_keeps_executable_bits(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as packed:
        info = zipfile.ZipInfo("top/run.sh")
        info.external_attr = 0o755 << 16
        packed.writestr(info, "x")
    assert (unpack(tmp_path / "a.zip", tmp_path / "out") / "run.sh").stat().st_mode & 0o100


def test_a_cut_archive_is_named_as_damaged(tmp_path: Path) -> None:
    whole = tar_with(tmp_path / "a.tar.gz", *(member(f"top/{n}.txt") for n in range(200)))
    cut = tmp_path / "cut.tar.gz"
    cut.write_bytes(whole.read_bytes()[:-200])
    with pytest.raises(KeyelabError, match="expected a whole archive"):
        unpack(cut, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_another_kind_of_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text("<html>not found</html>", encoding="utf-8")
    with pytest.raises(KeyelabError, match="found another kind of file"):
        unpack(tmp_path / "page.html", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_wrong_digest_gives_both_and_removes_the_file_only_when_told(tmp_path: Path) -> None:
    path = tmp_path / "a.tar.gz"
    path.write_bytes(b"content")
    found = sha256_file(path)
    with pytest.raises(KeyelabError, match=f"expected sha256 {'0' * 64}, found {found}"):
        require_sha256(path, "0" * 64, remove=False, hint="")
    assert path.exists()
    with pytest.raises(KeyelabError, match="removed"):
        require_sha256(path, "0" * 64, remove=True, hint="")
    assert not path.exists()
