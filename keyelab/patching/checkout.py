"""A tree from a git repository at a branch, tag or commit, without its history."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

from keyelab.errors import CommandFailed, KeyelabError
from keyelab.shell import run

OnProgress = Callable[[float | None, str], None]
_FULL = re.compile(r"[0-9a-f]{40}")
_SHORT = re.compile(r"[0-9a-f]{7,39}")


def remote_commit(url: str, ref: str, log: Path | None = None) -> str | None:
    """The full commit that `ref` names in the repository now; None for a shortened commit.

    Raises KeyelabError when the repository does not answer or knows no such name.
    """
    if _FULL.fullmatch(ref):
        return ref
    patterns = [f"refs/heads/{ref}", f"refs/tags/{ref}", f"refs/tags/{ref}^{{}}"]
    try:
        output = run(
            ["git", "ls-remote", "--", url, *patterns], env=_environment(), log=log, timeout_s=120
        ).output
    except CommandFailed as error:
        raise _unreachable(url, error) from None
    pairs = [line.split("\t", 1) for line in output.splitlines() if "\t" in line]
    for name in (patterns[0], patterns[2], patterns[1]):
        for commit, known in pairs:
            if known == name:
                return commit
    if _SHORT.fullmatch(ref):
        return None
    raise KeyelabError(
        f"expected a branch, tag or commit of {url}, found no {ref!r}",
        f"the names it has: git ls-remote {url}",
    )


def check_out(
    url: str, ref: str, folder: Path, on_progress: OnProgress, log: Path | None = None
) -> str:
    """Put the files of `ref` into `folder` (which must not exist) and return the full commit.

    Only that commit is fetched where the server allows it; a shortened commit needs the history.
    The `.git` folder is removed: a tree is known by its digest.
    """
    folder.mkdir(parents=True)
    environment = _environment(folder.parent)

    def git(*words: str, timeout_s: float = 3600) -> str:
        on_progress(None, f"git {words[0]} {ref}")
        return run(
            ["git", *words], cwd=folder, env=environment, log=log, timeout_s=timeout_s
        ).output.strip()

    git("init", "--quiet")
    try:
        commit = remote_commit(url, ref, log)
        try:
            git("fetch", "--quiet", "--depth", "1", "--", url, commit or ref)
            commit = git("rev-parse", "FETCH_HEAD^{commit}")
        except CommandFailed:
            names = ("+refs/heads/*:refs/remotes/origin/*", "+refs/tags/*:refs/tags/*")
            git("fetch", "--quiet", "--", url, *names)
            commit = git("rev-parse", f"{commit or ref}^{{commit}}")
        git("-c", "advice.detachedHead=false", "checkout", "--quiet", commit)
    except CommandFailed as error:
        raise _unreachable(url, error) from None
    shutil.rmtree(folder / ".git")
    return commit


def _environment(ceiling: Path | None = None) -> dict[str, str]:
    """Git must not ask questions, and must not find a repository above the folder."""
    more = {"GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
    if ceiling:
        more["GIT_CEILING_DIRECTORIES"] = str(ceiling)
    return {**os.environ, **more}


def _unreachable(url: str, error: CommandFailed) -> KeyelabError:
    cause = error.message.split(": ", 1)[-1]
    return KeyelabError(
        f"expected an answer of the repository {url}, found: {cause}",
        f"check the network or proxy, then by hand: git ls-remote {url}",
    )
