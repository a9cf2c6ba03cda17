"""The same failure is known again: by the catalogue, or by its text without numbers and paths."""

from __future__ import annotations

from pathlib import Path

from made_runs import make_run

from keyelab.record.fault import Fault, first_sentence
from keyelab.record.row import read

KILLED = "c++: fatal error: Killed signal terminated program cc1plus\n"


def fault(folder: Path) -> Fault:
    found = read(folder).fault
    assert found is not None
    return found


def test_a_log_tells_the_entry_of_the_catalogue_and_its_remedy(tmp_path: Path) -> None:
    found = fault(make_run(tmp_path, failed="build", log="ok\n" * 9 + KILLED))
    assert (found.phase, found.id, found.key) == ("build", "compiler-killed", "compiler-killed")
    assert found.sentence == "expected exit status 0 of cmake, found 1"
    assert found.remedy.startswith("$ keyelab run --from build")


def test_the_message_tells_it_where_there_is_no_log(tmp_path: Path) -> None:
    assert fault(make_run(tmp_path, failed="build", message=KILLED)).id == "compiler-killed"


def test_a_question_that_failed_is_explained_by_the_servers_log(tmp_path: Path) -> None:
    folder = make_run(tmp_path, failed="video_test", message="KeyelabError: no answer")
    assert fault(folder).id == ""
    log = folder / "logs" / "06_serve-server-8080.log"
    log.write_text("failed to find a memory slot for batch of size 1\n")
    assert fault(folder).id == "kv-cache-full"
    assert fault(make_run(tmp_path, 1, failed="build", message="no")).id == ""


def test_unknown_failures_are_the_same_but_for_numbers_and_paths(tmp_path: Path) -> None:
    one = fault(make_run(tmp_path, 1, failed="serve", message="expected 3 at /a/b, found 4"))
    other = fault(make_run(tmp_path, 2, failed="serve", message="expected 70 at ~/c, found 0"))
    different = fault(make_run(tmp_path, 3, failed="serve", message="no memory"))
    assert one.id == other.id == ""
    assert one.key == other.key != different.key


def test_only_the_end_of_an_endless_log_is_read(tmp_path: Path) -> None:
    folder = make_run(tmp_path, failed="build", log="x")
    with (folder / "logs" / "05_build.log").open("r+b") as log:
        log.seek(1 << 32)  # a hole of 4 GiB
        log.write(b"\n" + KILLED.encode())
    assert fault(folder).id == "compiler-killed"


def test_a_log_that_cannot_be_read_leaves_the_failure_unknown(tmp_path: Path) -> None:
    folder = make_run(tmp_path, failed="build")
    (folder / "logs" / "05_build.log").mkdir()
    assert fault(folder).id == ""
    (folder / "logs" / "05_build-more.log").symlink_to("nowhere")
    assert fault(folder).id == ""


def test_the_first_sentence_is_one_line_without_class_and_secret() -> None:
    assert first_sentence("KeyelabError: expected a, found b\n  next: c") == "expected a, found b"
    assert first_sentence("x token=abcdefgh12345") == "x token=[redacted]"
    assert len(first_sentence("y" * 999)) < 250
    assert first_sentence("") == ""
