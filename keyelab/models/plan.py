"""Where the two files come from, what is there, and what has to come."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from keyelab import shell
from keyelab.checks import Check, check
from keyelab.errors import KeyelabError, UsageError
from keyelab.files import located, shown
from keyelab.models import hub, leftovers
from keyelab.models.leftovers import amount
from keyelab.params import ModelFetch

PACKAGED = Path(__file__).parent / "demo"
# enough to write the run's own files beside a model that just fits
_SPARE_BYTES = 2**30


@dataclass(frozen=True)
class Plan:
    """What will be done: `missing` files are fetched by `command`; nothing when both are there.

    `model_name` and `mmproj_name` are relative to `folder`; `need_bytes` is None when unknown.
    """

    source: str
    origin: str
    folder: Path
    model_name: str
    mmproj_name: str
    missing: tuple[str, ...]
    command: tuple[str, ...]
    listed: dict[str, hub.Listed]
    need_bytes: int | None
    free_bytes: int

    @property
    def names(self) -> tuple[str, str]:
        """Both file names, the model's first."""
        return self.model_name, self.mmproj_name

    @property
    def model(self) -> Path:
        """Where the text model is, or will be."""
        return self.folder / self.model_name

    @property
    def mmproj(self) -> Path:
        """Where the projector is, or will be."""
        return self.folder / self.mmproj_name


def make(params: ModelFetch, workdir: Path, env: Mapping[str, str]) -> Plan:
    """Find out what is there and what has to come; asks the hub unless this is a dry run.

    Raises UsageError for parameters that do not go together, KeyelabError for files that are
    missing or unfinished where nothing is downloaded, or for a hub that cannot be reached.
    """
    folder = _folder(params, workdir)
    names = (params.model_file, params.mmproj_file)
    missing = tuple(name for name in names if not os.path.lexists(folder / name))
    argv: tuple[str, ...] = ()
    listed: dict[str, hub.Listed] = {}
    origin: str = params.source
    if params.source in hub.HUBS:
        origin = f"{params.source} {params.repo}{'@' if params.revision else ''}{params.revision}"
        if missing:
            argv = hub.command(params.source, params.repo, params.revision, missing, folder, env)
            if not params.dry_run:
                # both files: one may have come whole before an earlier download stopped
                listed = hub.listing(params.source, params.repo, params.revision, missing, names)
    elif missing:
        leftovers.refuse(folder, names)
        raise KeyelabError(
            f"expected {' and '.join(missing)} in {shown(folder)}, found {_content(folder)}",
            "set model_dir, model_file and mmproj_file to files that are there, or another source",
        )
    if not missing:
        leftovers.refuse(folder, names)
    sizes = [listed[name].size_bytes if name in listed else None for name in missing]
    begun = sum(path.stat().st_size for path in leftovers.beside(folder, names))
    return Plan(
        source=params.source,
        origin=origin,
        folder=folder,
        model_name=params.model_file,
        mmproj_name=params.mmproj_file,
        missing=missing,
        command=argv,
        listed=listed,
        need_bytes=None if None in sizes else max(0, sum(size or 0 for size in sizes) - begun),
        free_bytes=shutil.disk_usage(_existing(folder)).free,
    )


def rows(plan: Plan) -> list[dict[str, Any]]:
    """The plan as a table of facts."""
    there = [path for path in (plan.model, plan.mmproj) if path.exists()]
    begun = leftovers.anywhere(plan.folder, plan.names)
    facts = {
        "source": plan.origin,
        "folder": shown(plan.folder),
        "already there": ", ".join(f"{p.name} ({amount(p.stat().st_size)})" for p in there)
        or "nothing",
        "unfinished": f"{amount(sum(p.stat().st_size for p in begun))} in {len(begun)} "
        f"file{'s' if len(begun) != 1 else ''}"
        if begun
        else "nothing",
        "to fetch": ", ".join(plan.missing) or "nothing",
        "size of that": amount(plan.need_bytes),
        "free space": amount(plan.free_bytes),
    }
    return [{"fact": name, "value": value} for name, value in facts.items()]


def command_line(plan: Plan) -> str:
    """The download as one line to paste into a shell, or a remark that none is needed."""
    if not plan.command:
        return "# nothing to download: the files are used where they are"
    program, *rest = plan.command
    return shell.quoted([Path(program).name, *rest])


def space_check(plan: Plan) -> Check:
    """The disk has room for what is missing, and 1 GiB more."""
    least = (plan.need_bytes or 0) + _SPARE_BYTES
    if not plan.missing:
        least, expected = 0, "nothing to fetch"
    elif plan.need_bytes is None:
        expected = "a known download size"
    else:
        expected = f"{amount(least)} free for {shown(plan.folder)}"
    return check(
        "space for the model",
        None if plan.need_bytes is None else plan.free_bytes >= least,
        expected=expected,
        found=f"{amount(plan.free_bytes)} free",
        remedy="free space, or set model_dir to a larger disk: df -h",
    )


def _folder(params: ModelFetch, workdir: Path) -> Path:
    if params.source == "packaged":
        if params.model_dir or params.repo:
            raise UsageError(
                "source 'packaged' is the demo model inside keyelab, found model_dir or repo set",
                "set model_fetch.source to path, modelscope or huggingface, or leave both empty",
            )
        return PACKAGED
    if params.source == "path":
        if not params.model_dir:
            raise UsageError(
                "source 'path' needs the folder of the files, found an empty model_dir",
                "set model_fetch.model_dir, for example /opt/models/keye",
            )
        return located(params.model_dir)
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", params.repo):
        raise UsageError(
            f"source {params.source!r} needs repo as owner/name, found {params.repo!r}",
            "set model_fetch.repo, for example Kwai-Keye/Keye-VL-2.0-30B-A3B-GGUF",
        )
    return located(params.model_dir) if params.model_dir else workdir / "models" / params.repo


def _existing(folder: Path) -> Path:
    return next(place for place in (folder, *folder.parents) if place.exists())


def _content(folder: Path) -> str:
    if not folder.is_dir():
        return "no such folder"
    others = sorted(path.name for path in folder.glob("*.gguf*"))
    return "only " + ", ".join(others[:6]) if others else "no .gguf file there"
