"""Signing a record with OpenSSH, and the ways in which a signature is worth nothing."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from recorded_run import make_run, reseal

from keyelab.commands.verify import verify as command
from keyelab.errors import KeyelabError, ProgramMissing, UsageError
from keyelab.record import seal
from keyelab.record.signature import NAMESPACE, sign, signature_check

pytestmark = pytest.mark.skipif(not shutil.which("ssh-keygen"), reason="needs ssh-keygen")


@pytest.fixture(scope="module")
def sealed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    root = tmp_path_factory.mktemp("signed")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KEYELAB_HOME", str(root))
        yield make_run(root)


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the keys mine, other and locked, and allowed_signers for the first two."""
    folder = tmp_path_factory.mktemp("keys")
    lines = []
    for name in ("mine", "other", "locked"):
        secret = "a passphrase" if name == "locked" else ""
        words = ["-q", "-t", "ed25519", "-N", secret, "-C", "", "-f", str(folder / name)]
        subprocess.run(["ssh-keygen", *words], check=True)
        if name != "locked":
            lines.append(f"{name}@lab {(folder / f'{name}.pub').read_text()}")
    (folder / "allowed").write_text("".join(lines))
    return folder


@pytest.fixture
def record(sealed: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(sealed, tmp_path / "copy"))


def run(*words: str | Path) -> Result:
    return CliRunner().invoke(command, [str(word) for word in words])


def required(record: Path, keys: Path, name: str = "mine@lab") -> Result:
    return run(record, "--require-signer", name, "--allowed-signers", keys / "allowed")


def test_a_signed_record_is_its_signers_and_nobody_elses(record: Path, keys: Path) -> None:
    done = run(record, "--sign", keys / "mine")
    assert done.exit_code == 0, done.output
    assert f"signed: {record / seal.SIGNATURE}" in done.output
    assert seal.edits(record) == [], "the signature is not added after the run"
    good = required(record, keys)
    assert good.exit_code == 0, good.output
    assert "ok      signature: by mine@lab with ED25519 key SHA256:" in good.output
    for name in ("other@lab", "nobody@lab"):
        wrong = required(record, keys, name)
        assert wrong.exit_code == 1
        assert "failed  signature: by mine@lab with ED25519 key" in wrong.output


def test_a_signature_is_shown_and_not_trusted_without_a_required_signer(
    record: Path, keys: Path
) -> None:
    assert " signature: " not in run(record, "--quick").output
    sign(record, keys / "mine")
    done = run(record, "--quick", "--json")
    (shown,) = [item for item in json.loads(done.stdout) if item["name"] == "signature"]
    assert (done.exit_code, shown["status"]) == (0, "unknown")
    assert "by ED25519 key SHA256:" in shown["found"]


def another_namespace(record: Path, keys: Path) -> None:
    words = ["ssh-keygen", "-Y", "sign", "-f", str(keys / "mine"), "-n", "git"]
    with (record / seal.SUMS).open() as sums, (record / seal.SIGNATURE).open("w") as made:
        subprocess.run(words, stdin=sums, stdout=made, check=True)


def edited(record: Path, keys: Path) -> None:
    (record / "index.html").write_text("better")
    reseal(record)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda r, k: (r / seal.SIGNATURE).unlink(), f"no {seal.SIGNATURE}"),
        (another_namespace, "namespace does not match"),
        (edited, "incorrect signature"),
        (lambda r, k: (r / seal.SIGNATURE).write_text(""), "does not fit: "),
        (lambda r, k: (r / seal.SIGNATURE).write_bytes(bytes(99)), "does not fit: "),
    ],
    ids=["none", "namespace", "edited and sealed anew", "empty", "junk"],
)
def test_a_signature_that_is_not_of_these_sums_fails(
    record: Path, keys: Path, change: Callable[[Path, Path], object], why: str
) -> None:
    sign(record, keys / "mine")
    change(record, keys)
    done = required(record, keys)
    assert done.exit_code == 1
    assert why in done.output
    assert "not verified: 1 of 20 checks failed: signature" in done.output


def test_a_key_that_is_not_allowed_is_nobodys(record: Path, keys: Path, tmp_path: Path) -> None:
    sign(record, keys / "mine")
    allowed = tmp_path / "allowed"
    allowed.write_text(f"other@lab {(keys / 'other.pub').read_text()}")
    check = signature_check(record, "mine@lab", allowed)
    assert check is not None
    assert check.status == "failed"
    assert "by nobody that is allowed" in check.found


def test_a_locked_key_is_one_sentence_and_signs_nothing(record: Path, keys: Path) -> None:
    with pytest.raises(KeyelabError, match=r"found: .*passphrase") as told:
        sign(record, keys / "locked")
    assert "ssh-add" in told.value.hint
    assert not (record / seal.SIGNATURE).exists()


def test_a_file_that_is_no_key_is_one_sentence(record: Path, keys: Path) -> None:
    with pytest.raises(KeyelabError, match=r"to sign with .*allowed, found: "):
        sign(record, keys / "allowed")
    with pytest.raises(KeyelabError, match=r"a private key at .*gone, found none"):
        sign(record, keys / "gone")


def test_a_record_that_failed_is_not_signed(record: Path, keys: Path) -> None:
    (record / "index.html").write_text("better")
    done = run(record, "--sign", keys / "mine")
    assert isinstance(done.exception, KeyelabError)
    assert "nothing was signed: not verified: 1 of " in done.exception.message
    assert not (record / seal.SIGNATURE).exists()


def test_a_second_signature_takes_the_place_of_the_first(record: Path, keys: Path) -> None:
    for name in ("mine", "other"):
        sign(record, keys / name)
    assert required(record, keys, "other@lab").exit_code == 0


def test_without_ssh_keygen_it_says_so(
    record: Path, keys: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sign(record, keys / "mine")
    monkeypatch.setenv("PATH", "/nowhere")
    shown = signature_check(record)
    assert shown is not None
    assert shown.status == "unknown"
    for act in (
        lambda: sign(record, keys / "mine"),
        lambda: signature_check(record, "mine@lab", keys / "allowed"),
    ):
        with pytest.raises(ProgramMissing, match="ssh-keygen"):
            act()


def test_options_that_do_not_go_together_are_refused(record: Path, keys: Path) -> None:
    with pytest.raises(UsageError, match="together"):
        signature_check(record, "mine@lab")
    with pytest.raises(UsageError, match="expected a file of allowed signers"):
        signature_check(record, "mine@lab", keys / "nowhere")
    both = run(record, "--sign", keys / "mine", "--require-signer", "x")
    assert isinstance(both.exception, UsageError)


def test_the_namespace_is_the_documented_one() -> None:
    assert NAMESPACE == "keyelab-record"
