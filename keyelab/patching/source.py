"""The pristine llama.cpp tree: obtained once, kept by digest under workdir/sources/<digest12>/."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from keyelab.errors import KeyelabError, UsageError
from keyelab.files import located, read_json, sha256_json, sha256_tree, shown, write_json
from keyelab.params import SourcePatch
from keyelab.patching import checkout, pypi
from keyelab.patching.archive import require_sha256, unpack

OnProgress = Callable[[float | None, str], None]


@dataclass(frozen=True)
class Source:
    """A pristine tree, its digest, where it came from, and whether it was there before."""

    tree: Path
    sha256: str
    origin: str
    version: str
    cached: bool


def obtain(
    params: SourcePatch, workdir: Path, on_progress: OnProgress, log: Path | None = None
) -> Source:
    """The tree that the parameters name, taken from the cache when it is there.

    A path is copied, never edited. Raises KeyelabError with both digests when an archive is not
    the expected one, and one sentence when there is no network.
    """
    hit = in_cache(params, workdir)
    if hit:
        return hit
    store = workdir / "sources"
    store.mkdir(parents=True, exist_ok=True)
    partial = Path(tempfile.mkdtemp(prefix=".partial-", dir=store))
    try:
        tree, origin, version, key = _bring(params, workdir, partial, on_progress, log)
        if not (tree / "ggml" / "CMakeLists.txt").is_file():
            raise KeyelabError(
                f"expected a llama.cpp tree (ggml/CMakeLists.txt), found {_inside(tree)}",
                "set source_patch.subdir to the folder of the tree inside the archive",
            )
        on_progress(None, "digest of the tree")
        digest = sha256_tree(tree)
        final = store / digest[:12]
        if not final.exists():
            tree.rename(final)
        record = {"key": key, "sha256": digest, "origin": origin, "version": version}
        write_json(store / f"{digest[:12]}.{key[:12]}.json", record)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return _checked(Source(final, digest, origin, version, cached=False))


def in_cache(params: SourcePatch, workdir: Path) -> Source | None:
    """The tree if it can be had from workdir without network or copying, else None.

    A branch or tag may have moved, so only a full commit is looked up; a path is always read.
    """
    key = _key(params, params.git_ref)
    for record in sorted((workdir / "sources").glob(f"*.{key[:12]}.json")) if key else []:
        content = read_json(record)
        tree = record.parent / content["sha256"][:12]
        if content["key"] == key and tree.is_dir():
            found = Source(
                tree, content["sha256"], content["origin"], content["version"], cached=True
            )
            return _checked(found)
    return None


def _key(params: SourcePatch, commit: str) -> str:
    """What makes two requests the same tree, as a digest; '' when that cannot be told."""
    if params.source in ("pypi", "archive") and params.archive_sha256:
        return sha256_json(["archive", params.archive_sha256.lower(), params.subdir])
    if params.source == "git" and len(commit) == 40:
        return sha256_json(["git", params.git_url, commit])
    return ""


def _bring(
    params: SourcePatch, workdir: Path, partial: Path, on_progress: OnProgress, log: Path | None
) -> tuple[Path, str, str, str]:
    """Put the tree below `partial`; returns (tree, origin, version, key)."""
    if params.source == "git":
        _required(params, "git_url", "git_ref")
        commit = checkout.check_out(
            params.git_url, params.git_ref, partial / "tree", on_progress, log
        )
        origin = f"git {params.git_url} {params.git_ref} {commit[:12]}"
        return partial / "tree", origin, commit, _key(params, commit)
    if params.source == "path":
        _required(params, "source_path")
        start = located(params.source_path)
        if not start.is_dir():
            raise KeyelabError(f"expected a folder at {shown(start)}, found none")
        on_progress(None, f"copy {shown(start)}")
        skipped = shutil.ignore_patterns(".git")
        shutil.copytree(start, partial / "tree", symlinks=True, ignore=skipped)
        return partial / "tree", f"path {shown(start)}", "", sha256_json(["path", str(start)])
    if params.source == "pypi":
        file = pypi.download(
            params.package,
            params.version,
            params.archive_sha256,
            workdir / "downloads",
            on_progress,
            log,
        )
        origin, version = f"pypi {params.package} {params.version}", params.version
    else:
        _required(params, "archive")
        file = located(params.archive)
        if not file.is_file():
            raise KeyelabError(f"expected an archive at {shown(file)}, found none")
        origin, version = f"archive {shown(file)}", ""
    hint = "get it again, or set source_patch.archive_sha256 to the digest you trust"
    digest = require_sha256(file, params.archive_sha256, remove=False, hint=hint)
    on_progress(None, f"unpack {file.name}")
    top = unpack(file, partial / "unpacked")
    tree = top / params.subdir
    if not tree.resolve().is_relative_to(partial.resolve()) or not tree.is_dir():
        raise KeyelabError(
            f"expected a folder {params.subdir!r} in {file.name}, found {_inside(top)}",
            "set source_patch.subdir",
        )
    key = sha256_json(["archive", digest, params.subdir])
    return tree, f"{origin} sha256:{digest[:12]}", version, key


def _checked(source: Source) -> Source:
    found = sha256_tree(source.tree)
    if found != source.sha256:
        raise KeyelabError(
            f"expected the pristine tree {source.sha256[:12]} in {shown(source.tree)}, "
            f"found {found[:12]}: it was edited",
            f"keep your edits elsewhere, then: rm -r {shown(source.tree)}",
        )
    return source


def _required(params: SourcePatch, *names: str) -> None:
    for name in names:
        if not getattr(params, name):
            raise UsageError(
                f"source_patch.{name}: expected a value for source {params.source}, found none",
                f"set source_patch.{name}",
            )


def _inside(folder: Path) -> str:
    names = sorted(path.name for path in folder.iterdir())
    return ", ".join(names[:6]) + (" …" if len(names) > 6 else "") or "an empty folder"


def rows(source: Source | None) -> list[dict[str, str]]:
    """The source as rows of a table; None is a tree that a dry run does not fetch."""
    if source is None:
        return [{"fact": "tree", "value": "not in the cache; a dry run fetches nothing"}]
    values = {**asdict(source), "tree": shown(source.tree)}
    return [{"fact": name, "value": str(value)} for name, value in values.items()]
