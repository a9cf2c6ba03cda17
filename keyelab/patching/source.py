"""The pristine llama.cpp tree: obtained once, kept by digest under workdir/sources/<digest12>/."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from keyelab import partial
from keyelab.errors import KeyelabError, UsageError
from keyelab.files import read_json, sha256_json, sha256_tree, shown, write_json
from keyelab.params import SourcePatch
from keyelab.patching.apply import require_digest
from keyelab.patching.fetch import OnProgress, bring, inside

NEEDED = {
    "pypi": ("package", "version"),
    "archive": ("archive",),
    "git": ("git_url", "git_ref"),
    "path": ("source_path",),
}


@dataclass(frozen=True)
class Source:
    """A pristine tree, its digest, where it came from, and whether it was there before."""

    tree: Path
    sha256: str
    origin: str
    version: str
    cached: bool

    def __str__(self) -> str:
        """The source in markdown."""
        how = "there already" if self.cached else "obtained now"
        return f"Tree `{self.sha256}` in `{shown(self.tree)}`, {how}; from {self.origin}."


def obtain(
    params: SourcePatch, workdir: Path, on_progress: OnProgress, log: Path | None = None
) -> Source:
    """The tree that the parameters name, from the cache when it is there.

    Raises KeyelabError with both digests when an archive is not the expected one, and one sentence
    when there is no network.
    """
    for name in NEEDED[params.source]:
        if not getattr(params, name):
            raise UsageError(
                f"source_patch.{name}: expected a value for source {params.source}, found none",
                f"set source_patch.{name}",
            )
    hit = in_cache(params, workdir)
    if hit:
        return hit
    store = workdir / "sources"
    with partial.folder(store) as part:
        folder = part / "files"
        folder.mkdir()
        tree, origin, version = bring(params, folder, workdir / "downloads", on_progress, log)
        if not (tree / "ggml" / "CMakeLists.txt").is_file():
            raise KeyelabError(
                f"expected a llama.cpp tree (ggml/CMakeLists.txt), found {inside(tree)}",
                "set source_patch.subdir to the folder of the tree inside the archive",
            )
        on_progress(None, "digest of the tree")
        digest = sha256_tree(tree)
        final = store / digest[:12]
        try:
            tree.rename(final)
        except OSError:  # it is there: another run was faster, or it was asked for by another name
            if not final.exists():
                raise
    key = _key(params, version)
    if key:
        record = {"sha256": digest, "origin": origin, "version": version}
        write_json(store / f"{key}.json", record)
    return _pristine(Source(final, digest, origin, version, cached=False))


def in_cache(params: SourcePatch, workdir: Path) -> Source | None:
    """The tree if it can be had from workdir without network or copying, else None.

    A branch or tag may have moved, so only a full commit is looked up; a path is always read.
    """
    record = workdir / "sources" / f"{_key(params, params.git_ref)}.json"
    if not record.exists():
        return None
    content = read_json(record)
    tree = record.parent / content["sha256"][:12]
    return _pristine(Source(tree, **content, cached=True)) if tree.is_dir() else None


def _key(params: SourcePatch, commit: str) -> str:
    """What makes two requests the same tree, as a short digest; '' when that cannot be told."""
    if params.source in ("pypi", "archive") and params.archive_sha256:
        named = [params.source, params.package, params.version, params.archive, params.subdir]
        return sha256_json([*named, params.archive_sha256.lower()])[:16]
    if params.source == "git" and len(commit) == 40:
        return sha256_json([params.git_url, commit])[:16]
    return ""


def _pristine(source: Source) -> Source:
    hint = f"keep your edits elsewhere, then: rm -r {shown(source.tree)}"
    require_digest(source.tree, source.sha256, hint)
    return source
