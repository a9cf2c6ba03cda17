"""A signature of SHA256SUMS, made and checked by OpenSSH: SHA256SUMS.sig beside it.

Only it tells a record from one that was written anew in all its parts.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from keyelab.checks import Check, check
from keyelab.errors import KeyelabError, ProgramMissing, UsageError
from keyelab.files import shown, write_text
from keyelab.record.seal import SIGNATURE, SUMS

NAMESPACE = "keyelab-record"
_PROGRAM = "ssh-keygen"


def sign(folder: Path, key: Path) -> Path:
    """Sign SHA256SUMS with a private key, or with the agent's where `key` is a public one.

    Raises KeyelabError when the key is missing, locked or no key, or the folder is read-only.
    """
    require_key(key)
    done = _ssh_keygen(folder, "sign", "-f", str(key))
    if done.returncode:
        why = _last(done.stderr)
        locked = "passphrase" in why
        raise KeyelabError(
            f"expected to sign with {shown(key)}, found: {why}",
            f"ssh-add {shown(key)}; then --sign {shown(key.with_name(key.name + '.pub'))}"
            if locked
            else f"look at the key: ssh-keygen -l -f {shown(key)}",
        )
    try:
        return write_text(folder / SIGNATURE, done.stdout)
    except OSError as error:
        raise KeyelabError(
            f"expected to write {shown(folder / SIGNATURE)}, found: {error.strerror}",
            "make the folder writable, or sign a copy of it",
        ) from None


def require_key(key: Path) -> None:
    """Raise KeyelabError when there is no such file."""
    if not key.is_file():
        raise KeyelabError(
            f"expected a private key at {shown(key)}, found none",
            f"ssh-keygen -t ed25519 -f {shown(key)}",
        )


def signature_check(
    folder: Path, signer: str | None = None, allowed: Path | None = None
) -> Check | None:
    """A verdict on the signature: by `signer`, as the file `allowed` names its keys.

    Without a signer one that is there is shown and not trusted; None when there is none.
    """
    if bool(signer) != bool(allowed):
        raise UsageError(
            "expected --require-signer and --allowed-signers together, found one of them",
            "--require-signer NAME --allowed-signers FILE, with lines as: NAME ssh-ed25519 AAAA…",
        )
    if allowed and not allowed.is_file():
        raise UsageError(
            f"expected a file of allowed signers at {shown(allowed)}, found none",
            'one line a key: echo "NAME $(cat KEY.pub)" > FILE',
        )
    path = folder / SIGNATURE
    if path.is_symlink() or not path.is_file():
        return _verdict(False, signer, f"no {SIGNATURE}") if signer else None
    try:
        fits = _ssh_keygen(folder, "check-novalidate", "-s", str(path))
    except ProgramMissing:
        if signer:
            raise
        return _verdict(None, "", f"{SIGNATURE} is there, {_PROGRAM} is not")
    if fits.returncode:
        return _verdict(False, signer, f"{SIGNATURE} does not fit: {_last(fits.stderr)}")
    key = fits.stdout.strip().rpartition(" with ")[2]
    if not (signer and allowed):
        return _verdict(None, "", f"by {key}; whose that is was not asked")
    told = _ssh_keygen(folder, "verify", "-s", str(path), "-f", str(allowed), "-I", signer)
    if told.returncode == 0:
        return _verdict(True, signer, f"by {signer} with {key}")
    words = ["-Y", "find-principals", "-s", str(path), "-f", str(allowed)]
    names = ", ".join(_run(words).stdout.split("\n")).strip(", ")
    return _verdict(False, signer, f"by {names or 'nobody that is allowed'} with {key}")


def _verdict(ok: bool | None, signer: str | None, found: str) -> Check:
    return check(
        "signature",
        ok,
        expected=f"{SUMS} signed by {signer}" if signer else f"a signature of {SUMS}",
        found=found,
        remedy="--require-signer NAME --allowed-signers FILE"
        if ok is None
        else "get the record again from its signer; do not trust this one",
    )


def _ssh_keygen(folder: Path, action: str, *words: str) -> subprocess.CompletedProcess[str]:
    """`ssh-keygen -Y` on SHA256SUMS as standard input."""
    sums = (folder / SUMS).read_bytes().decode("utf-8", "surrogateescape")
    return _run(["-Y", action, "-n", NAMESPACE, *words], sums)


def _run(words: Sequence[str], given: str = "") -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            [_PROGRAM, *words],
            input=given,
            capture_output=True,
            encoding="utf-8",
            errors="surrogateescape",
            check=False,
            start_new_session=not sys.stdin.isatty(),  # nobody is there to type a passphrase
        )
    except FileNotFoundError:
        raise ProgramMissing(
            f"expected the program {_PROGRAM!r} on PATH, found none", "install OpenSSH's client"
        ) from None


def _last(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "it says nothing"
