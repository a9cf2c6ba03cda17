"""Paths, digests and writes that are whole or not there."""

from __future__ import annotations

import hashlib
import json
import os
import re
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from keyelab.errors import KeyelabError

_SECRET = re.compile(
    r"(?i)((?:api[-_]?key|token|secret|password|authorization)"
    r"[\"']?\s*[:= ]\s*[\"']?(?:bearer\s+)?)"
    r"([^\s\"',;&]{6,})"
)


def project_root() -> Path:
    """The checkout: the folder that holds notebooks/, params/ and patches/."""
    named = os.environ.get("KEYELAB_HOME")
    starts = [Path(named)] if named else [Path(__file__).resolve().parent, Path.cwd()]
    for start in starts:
        for folder in (start, *start.parents):
            if (folder / "notebooks").is_dir() and (folder / "params").is_dir():
                return folder
    raise KeyelabError(
        f"expected a keyelab checkout (notebooks/ and params/) above {starts[-1]}, found none",
        "cd into the checkout, or export KEYELAB_HOME=/path/to/keyelab",
    )


def shown(path: Path | str) -> str:
    """`path` as records show it: relative to the checkout, else with the home folder as ~."""
    path = Path(os.path.abspath(path))  # noqa: PTH100  (links stay as they were named)
    for base, prefix in ((project_root(), ""), (Path.home(), "~/")):
        if path.is_relative_to(base):
            return prefix + path.relative_to(base).as_posix()
    return path.as_posix()


def located(text: str | Path) -> Path:
    """The path that `shown` text or a parameter names: ~ expanded, relative to the checkout."""
    return project_root() / Path(text).expanduser()


def sha256_file(path: Path) -> str:
    """SHA-256 of a file, hex."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while chunk := stream.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()


def sha256_json(value: Any) -> str:
    """SHA-256 of a value's canonical JSON (sorted keys, no spaces), hex."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def sha256_tree(folder: Path, skip: Iterable[str] = ()) -> str:
    """SHA-256 over the relative path, executable bit and content of every file below `folder`.

    Times, owners and empty folders do not count; `skip` names top-level entries left out.
    """
    digest = hashlib.sha256()
    left_out = set(skip)
    for path in sorted(folder.rglob("*"), key=lambda p: p.relative_to(folder).as_posix()):
        relative = path.relative_to(folder)
        if relative.parts[0] in left_out or (path.is_dir() and not path.is_symlink()):
            continue
        if path.is_symlink():
            kind, content = "link", hashlib.sha256(str(path.readlink()).encode()).hexdigest()
        else:
            kind = "exec" if path.stat().st_mode & 0o100 else "file"
            content = sha256_file(path)
        digest.update(f"{kind} {relative.as_posix()} {content}\n".encode())
    return digest.hexdigest()


def write_bytes(path: Path, content: bytes) -> Path:
    """Write a file whole or not at all (temporary name, then rename); makes the folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        Path(name).chmod(0o666 & ~_umask())
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    return path


def write_text(path: Path, text: str) -> Path:
    """`write_bytes` for UTF-8 text with LF ends."""
    return write_bytes(path, text.encode())


def write_json(path: Path, value: Any) -> Path:
    """Write JSON with sorted keys and a trailing newline, whole or not at all."""
    text = json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False)
    return write_text(path, text + "\n")


def read_json(path: Path) -> Any:
    """Read a JSON file; a KeyelabError names a missing or broken one."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise KeyelabError(f"expected a file at {shown(path)}, found none") from None
    except ValueError as error:
        raise KeyelabError(f"expected JSON in {shown(path)}, found: {error}") from None


def redact(text: str) -> str:
    """`text` without secret-looking values (after api_key, token, password, …) and home paths."""
    text = _SECRET.sub(r"\1[redacted]", text)
    home = str(Path.home())
    return text.replace(home + "/", "~/") if len(home) > 1 else text


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
