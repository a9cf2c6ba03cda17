"""Toolkit headers edited in place: with consent, a backup, and the way back."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from keyelab.commands.headers import headers
from keyelab.errors import KeyelabError, UsageError
from keyelab.files import project_root, sha256_file, sha256_tree
from keyelab.patching import toolkit
from keyelab.patching.headers import plan_headers
from keyelab.patching.plan import Plan
from keyelab.patching.recipe import header_rules
from keyelab.patching.toolkit import INDEX, correct_in_place, restore

SPECIMEN = project_root() / "patches" / "headers" / "specimen"
INFO = "hip/amd_detail/cooperative_groups/details/info.h"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A toolkit that has the specimen's header."""
    shutil.copytree(SPECIMEN / "include", tmp_path / "dtk" / "include")
    return tmp_path / "dtk"


def planned(root: Path) -> Plan:
    plan, _ = plan_headers(str(root), header_rules())
    assert plan is not None
    return plan


def corrected(root: Path, accept: str = "") -> Path:
    return correct_in_place(planned(root), root, root.parent / "run" / "headers", accept)


def refused(root: Path, match: str, accept: str = "") -> KeyelabError:
    before = sha256_tree(root)
    with pytest.raises(KeyelabError, match=match) as caught:
        corrected(root, accept)
    assert sha256_tree(root) == before
    assert not (root.parent / "run").exists(), "nothing is written, no backup either"
    return caught.value


def test_the_header_is_corrected_with_a_backup_and_put_back_byte_for_byte(root: Path) -> None:
    base = sha256_tree(root)
    (root / "include" / INFO).chmod(0o640)
    backup = corrected(root)
    changed = root / "include" / INFO
    assert sha256_tree(root) != base
    assert changed.stat().st_mode & 0o777 == 0o640
    kept = json.loads((backup / INDEX).read_text())["files"]
    [entry] = kept.values()
    assert entry["before"] == sha256_file(backup / INFO)
    assert entry["after"] == sha256_file(changed)
    assert sorted(path.name for path in changed.parent.iterdir()) == ["info.h"]
    assert restore(backup) == [changed]
    assert sha256_tree(root) == base
    assert restore(backup) == [], "again it does nothing"


def test_a_second_time_there_is_nothing_to_correct(root: Path) -> None:
    corrected(root)
    assert plan_headers(str(root), header_rules())[1].endswith("need no correction")


def test_an_unknown_original_is_refused_unless_its_digest_is_given(root: Path) -> None:
    with (root / "include" / INFO).open("a") as stream:
        stream.write("// another release\n")
    found = sha256_file(root / "include" / INFO)
    error = refused(root, f"expected a known original at .*info.h, found sha256 {found}")
    assert error.hint.endswith(f"--set header_fixes.accept_sha256={found}")
    refused(root, "expected a known original", accept="0" * 64)
    assert restore(corrected(root, accept=found.upper())) == [root / "include" / INFO]


def test_a_folder_that_leads_out_of_the_root_is_not_followed(root: Path, tmp_path: Path) -> None:
    (root / "include").rename(tmp_path / "elsewhere")
    (root / "include").symlink_to(tmp_path / "elsewhere")
    before = sha256_tree(tmp_path / "elsewhere")
    refused(root, "inside of .*dtk, found a link to .*elsewhere")
    assert sha256_tree(tmp_path / "elsewhere") == before


def test_a_root_that_is_itself_a_link_is_the_usual_case(root: Path) -> None:
    link = root.parent / "dtk-link"
    link.symlink_to(root)
    plan = planned(link)
    backup = correct_in_place(plan, link, root.parent / "run")
    assert restore(backup) == [root / "include" / INFO]


@pytest.mark.parametrize("place", [INFO, str(Path(INFO).parent)])
def test_a_read_only_toolkit_is_named_with_the_other_way(root: Path, place: str) -> None:
    path = root / "include" / place
    path.chmod(path.stat().st_mode & ~0o222)
    error = refused(
        root, f"expected to be able to change .*{path.name}, found that it is read-only"
    )
    path.chmod(0o755)
    assert "mode overlay" in error.hint


def test_a_failing_write_leaves_the_original_and_no_temporary_file(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_room(*arguments: object) -> None:
        raise OSError(28, "No space left on device")

    before = sha256_tree(root)
    monkeypatch.setattr(Path, "replace", no_room)
    monkeypatch.setattr(toolkit, "write_bytes", lambda path, content: None)
    monkeypatch.setattr(toolkit, "write_json", lambda path, content: None)
    with pytest.raises(OSError, match="No space"):
        corrected(root)
    assert sha256_tree(root) == before


def test_what_a_killed_run_left_beside_the_header_does_not_stop_the_next(root: Path) -> None:
    left = (root / "include" / INFO).with_name(".info.h.keyelab")
    left.write_text("half")
    corrected(root)
    assert not left.exists()


def test_a_header_that_changed_since_is_not_put_back(root: Path) -> None:
    backup = corrected(root)
    (root / "include" / INFO).write_text("a newer release\n")
    with pytest.raises(KeyelabError, match="found it changed since"):
        restore(backup)
    assert (root / "include" / INFO).read_text() == "a newer release\n"


def test_a_damaged_backup_is_not_put_back(root: Path) -> None:
    backup = corrected(root)
    (backup / INFO).write_text("damaged\n")
    before = sha256_tree(root)
    with pytest.raises(KeyelabError, match="expected the original"):
        restore(backup)
    assert sha256_tree(root) == before


def test_the_command_restores_what_a_run_keeps(root: Path) -> None:
    run = root.parent / "run"
    assert isinstance(CliRunner().invoke(headers, ["restore", str(run)]).exception, UsageError)
    base = sha256_tree(root)
    corrected(root)
    sealed = sha256_tree(run)
    said = CliRunner().invoke(headers, ["restore", str(run)])
    assert said.exit_code == 0
    assert said.output.startswith("put back ")
    assert sha256_tree(root) == base
    assert CliRunner().invoke(headers, ["restore", str(run)]).output == "nothing to put back\n"
    assert sha256_tree(run) == sealed, "the run folder is only read"


def test_the_specimen_is_the_known_header() -> None:
    from keyelab.params import read_yaml

    known = read_yaml(project_root() / "patches" / "known_headers.yaml")
    assert list(known) == [sha256_file(SPECIMEN / "include" / INFO)]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_the_owner_of_the_header_stays(root: Path) -> None:
    os.chown(root / "include" / INFO, 65534, 65534)
    corrected(root)
    assert (root / "include" / INFO).stat().st_uid == 65534
