"""Paths, digests and writes that are whole or not there."""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
import tempfile
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from keyelab.errors import KeyelabError

STATE = ".keyelab"  # what keyelab keeps in a tree that it has changed in place
NOT_SOURCE = frozenset({".git", STATE})  # in a tree, but no part of it
_WORD = (
    r"(?:api[-_]?key|access[-_]?key|account[-_]?key|private[-_]?key|token|secret|passw(?:or)?d"
    r"|passphrase|authorization|cookie)"
)
_QUOTE = r"(?:\\*[\"'])?"  # quoted inside JSON, a quote has backslashes before it
_QUERY = re.compile(  # &#39; is a quote in HTML
    r"https?://[^\s?\"'<>\\]+\?((?:(?!&#)[^\s\"'<>\\])+)"
)
_SIGNED = re.compile(
    r"(?i)(?:^|[?&;_-])(?:sig|sign|signature|token|key|secret|auth|credential|policy|expires)="
    r"|=[\w%.~+/-]{24,}"
)
_FORMATS = (  # a key is known by its beginning
    r"hf_[A-Za-z0-9]{20,}",
    r"(?:sk|nvapi)-[A-Za-z0-9_-]{20,}",
    r"gsk_[A-Za-z0-9]{20,}",
    r"gh[opsur]_[A-Za-z0-9]{30,}",
    r"github_pat_\w{30,}",
    r"gl(?:pat|dt|rt|ptt)-[\w-]{20,}",
    r"(?:xox[abeprs]|xapp)-[\w-]{10,}",
    r"(?:AKIA|ASIA)[A-Z0-9]{16}",
    r"(?:LTAI|AKID)[A-Za-z0-9]{12,}",
    r"AIza[\w-]{35}",
    r"ya29\.[\w-]{20,}",
    r"eyJ[\w-]{10,}\.[\w-]{10,}\.[\w-]{10,}",
    r"npm_[A-Za-z0-9]{36}",
    r"pypi-[\w-]{50,}",
    r"hv[bsr]\.[\w-]{20,}",
    r"[rs]k_(?:live|test)_[A-Za-z0-9]{16,}",
    r"SG\.[\w-]{16,}\.[\w-]{16,}",
    r"ms-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}",
    r"AGE-SECRET-KEY-1[A-Z0-9]{20,}",
    r"\d{8,10}:AA[\w-]{33}",
)
_SECRETS = (  # group 1, or all of it
    re.compile(
        rf"(?i)(?:{_WORD}{_QUOTE}\s*(?::|=(?!=))|(?<![\w-])--?[\w-]*{_WORD}{_QUOTE}[,\s=])"
        rf"\s*{_QUOTE}(?:(?:bearer|basic)\s+)?"
        # JSON's bare values stay: a number is a token id or a speed, not a secret
        r"(?!(?:-?\d+(?:\.\d+)?(?:e[+-]?\d+)?|true|false|null|NaN|-?Infinity)"
        r"(?:[\s\"',;&\\\])}]|$))"
        r"(?!(?:bearer|basic)(?:[\s\"'\\]|$))([^\s\"',;&\\:\[\]{}][^\s\"',;&\\]{5,})"
    ),
    re.compile(rf"\b(?:{'|'.join(_FORMATS)})"),
    re.compile(r"(?<=://)[^\s/@\"']+:[^\s/@\"']+(?=@)"),
    re.compile(r"(?:(?<=http://)|(?<=https://))[^\s/?#@\"'\\]+(?=@)"),
    re.compile(r"(?i)\bbearer\s+([\w.~+/-]{16,}=*)"),
    re.compile(r"\blogin\s+\S+\s+password\s+([^\s\"'\\]+)"),
    re.compile(r"(?<=hooks\.slack\.com/services/)[\w/]{20,}"),
    re.compile(
        r"-----BEGIN (?:\w+ )*PRIVATE KEY-----"
        r"((?:\\+[nr]|[A-Za-z0-9+/=:,.\s])+)"
    ),
)
_REPLACED = re.compile(r"\[(?:redacted|secret-[a-z]+)\]")


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
    for base, prefix in ((project_root(), ""), (_home(), "~/")):
        if base and path.is_relative_to(base):
            return prefix + path.relative_to(base).as_posix()
    return path.as_posix()


def located(text: str | Path) -> Path:
    """The path that `shown` text or a parameter names: ~ expanded, relative to the checkout."""
    return project_root() / Path(text).expanduser()


def sha256_file(
    path: Path, on_bytes: Callable[[int], None] | None = None, size_bytes: int | None = None
) -> str:
    """SHA-256 of a file, or of its first `size_bytes`, hex.

    `on_bytes` hears how many bytes each chunk brought.
    """
    digest, left = hashlib.sha256(), size_bytes if size_bytes is not None else sys.maxsize
    with path.open("rb") as stream:
        while chunk := stream.read(min(1 << 20, left)):
            digest.update(chunk)
            left -= len(chunk)
            if on_bytes:
                on_bytes(len(chunk))
    return digest.hexdigest()


def sha256_json(value: Any) -> str:
    """SHA-256 of a value's canonical JSON (sorted keys, no spaces), hex."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def sha256_tree(
    folder: Path, skip: Iterable[str] = (), replaced: Mapping[str, bytes] | None = None
) -> str:
    """SHA-256 over the relative path, executable bit and content of every file below `folder`.

    Times, owners and empty folders do not count; entries of NOT_SOURCE and those named in `skip`
    are left out.
    `replaced` gives the contents that some files (relative path) are going to have.
    Raises KeyelabError when there is no such folder.
    """
    if not folder.is_dir():
        raise KeyelabError(f"expected a folder at {shown(folder)}, found none")
    digest = hashlib.sha256()
    found = {entry.path: entry for entry in _entries(folder, {*NOT_SOURCE, *skip})}
    prefix = len(os.path.join(folder, ""))  # noqa: PTH118  (a trailing slash)
    chunk = memoryview(bytearray(1 << 18))  # one for all files: most are small
    for path, entry in sorted(found.items()):
        relative = path[prefix:]
        new = (replaced or {}).get(relative)
        if entry.is_symlink():
            kind, content = "link", hashlib.sha256(os.fsencode(Path(path).readlink()))
        else:
            kind = "exec" if entry.stat().st_mode & 0o100 else "file"
            content = _content(path, chunk) if new is None else hashlib.sha256(new)
        digest.update(os.fsencode(f"{kind} {relative} {content.hexdigest()}\n"))
    return digest.hexdigest()


def _entries(folder: Path | str, skip: Container[str]) -> Iterator[os.DirEntry[str]]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name not in skip:
                if entry.is_dir(follow_symlinks=False):
                    yield from _entries(entry.path, skip)
                else:
                    yield entry


def _content(path: str, chunk: memoryview) -> Any:
    digest = hashlib.sha256()
    with Path(path).open("rb", buffering=0) as stream:
        while count := stream.readinto(chunk):
            digest.update(chunk[:count])
    return digest


def write_bytes(path: Path, content: bytes) -> Path:
    """Write a file whole or not at all (temporary name, then rename); makes the folder.

    A file that is there keeps its permissions.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        Path(name).chmod(path.stat().st_mode & 0o7777 if path.exists() else 0o666 & ~_umask())
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
    except (FileNotFoundError, NotADirectoryError):
        raise KeyelabError(f"expected a file at {shown(path)}, found none") from None
    except ValueError as error:
        raise KeyelabError(f"expected JSON in {shown(path)}, found: {error}") from None


def secret_spans(text: str) -> list[tuple[int, int]]:
    """(start, end) of each secret-looking value in `text`, in order; they do not overlap.

    They are what follows api_key, token, password, …, keys of well known formats, and of URLs user
    names, passwords and queries that look signed.
    """
    found = [m.span(1) for m in _QUERY.finditer(text) if _SIGNED.search(m[1])]
    found += [m.span(m.lastindex or 0) for pattern in _SECRETS for m in pattern.finditer(text)]
    spans: list[tuple[int, int]] = []
    for start, end in sorted(found):
        if _REPLACED.fullmatch(text, start, end):
            continue
        if spans and start < spans[-1][1]:
            spans[-1] = (spans[-1][0], max(end, spans[-1][1]))
        else:
            spans.append((start, end))
    return spans


def redact(text: str) -> str:
    """`text` without `secret_spans` and home paths.

    Serialized JSON stays JSON: quotes and single backslashes are never taken.
    """
    for start, end in reversed(secret_spans(text)):
        text = f"{text[:start]}[redacted]{text[end:]}"
    home = _home()
    return text.replace(f"{home}/", "~/") if home else text


def redacted(value: Any) -> Any:
    """A JSON value whose texts are redacted."""
    return json.loads(redact(json.dumps(value, ensure_ascii=False)))


def _home() -> Path | None:
    try:
        home = Path.home()
    except RuntimeError:  # a container's user may have none
        return None
    return home if len(home.parts) > 1 else None


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
