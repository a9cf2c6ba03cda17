"""Where the two files come from, what is there, and bringing in what is missing."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from keyelab import shell
from keyelab.errors import CommandFailed, KeyelabError, UsageError
from keyelab.files import located, shown
from keyelab.models import digest, hub
from keyelab.models.digest import amount
from keyelab.params import ModelFetch

PACKAGED = Path(__file__).parent / "demo"
# enough to write the run's own files beside a model that just fits
_SPARE_BYTES = 2**30
# as browsers and clients call it; ModelScope's parts are <name>_<first byte>_<last byte>
_UNFINISHED = r"\.(?:incomplete|part|partial|download|aria2|crdownload|tmp)|_\d+_\d+"


@dataclass(frozen=True)
class Plan:
    """What will be done: `missing` files are fetched by `command`; nothing when both are there.

    `names` (the model's first) are relative to `folder`; `need_bytes` is None when unknown.
    """

    origin: str
    folder: Path
    names: tuple[str, str]
    missing: tuple[str, ...]
    command: tuple[str, ...]
    listed: dict[str, hub.Listed]
    need_bytes: int | None
    free_bytes: int

    @property
    def model(self) -> Path:
        """Where the text model is, or will be."""
        return self.folder / self.names[0]

    @property
    def mmproj(self) -> Path:
        """Where the projector is, or will be."""
        return self.folder / self.names[1]


def plan(params: ModelFetch, workdir: Path, env: Mapping[str, str]) -> Plan:
    """Find out what is there and what has to come; asks the hub unless this is a dry run.

    Raises UsageError for parameters that do not go together, KeyelabError for files that are
    missing or unfinished where nothing is downloaded, a hub that cannot be reached, or a disk
    without room for the files and 1 GiB more.
    """
    folder = _folder(params, workdir)
    names = (params.model_file, params.mmproj_file)
    missing = tuple(name for name in names if not (folder / name).exists())
    on_hub = params.source in hub.CLIENTS
    command: tuple[str, ...] = ()
    listed: dict[str, hub.Listed] = {}
    if on_hub and missing:
        command = hub.command(params, missing, folder, env)
        listed = {} if params.dry_run else hub.listing(params, missing)
    else:
        _refuse_unfinished(folder, names)
    if missing and not on_hub:
        others = ", ".join(sorted(path.name for path in folder.glob("*.gguf"))[:6])
        raise KeyelabError(
            f"expected {' and '.join(missing)} in {shown(folder)}, found {others or 'no .gguf'}",
            "set model_dir, model_file and mmproj_file to files that are there, or another source",
        )
    sizes = [listed[name].size_bytes if name in listed else None for name in missing]
    begun = sum(path.stat().st_size for path in _unfinished(folder, names))
    need = None if None in sizes else max(0, sum(size or 0 for size in sizes) - begun)
    free = shutil.disk_usage(next(p for p in (folder, *folder.parents) if p.exists())).free
    if need and free < need + _SPARE_BYTES:
        raise KeyelabError(
            f"expected {amount(need + _SPARE_BYTES)} free for {shown(folder)}, "
            f"found {amount(free)}",
            "free space, or set model_dir to a larger disk: df -h",
        )
    return Plan(
        origin=hub.origin(params) if on_hub else params.source,
        folder=folder,
        names=names,
        missing=missing,
        command=command,
        listed={name: listed[name] for name in names if name in listed},
        need_bytes=need,
        free_bytes=free,
    )


def rows(plan: Plan) -> list[dict[str, str]]:
    """The plan as a table of facts."""
    there = [path for path in (plan.model, plan.mmproj) if path.exists()]
    facts = {
        "source": plan.origin,
        "folder": shown(plan.folder),
        "already there": ", ".join(f"{p.name} ({amount(p.stat().st_size)})" for p in there),
        "to fetch": ", ".join(plan.missing),
        "size of that": amount(plan.need_bytes),
        "free space": amount(plan.free_bytes),
    }
    return [{"fact": name, "value": value or "nothing"} for name, value in facts.items()]


def command_line(plan: Plan) -> str:
    """The download as one line to paste into a shell, or a remark that none is needed."""
    if not plan.command:
        return "# nothing to download: the files are used where they are"
    program, *rest = plan.command
    return shell.quoted([Path(program).name, *rest])


def obtain(
    plan: Plan, env: Mapping[str, str], log: Path, on_progress: Callable[[float | None, str], None]
) -> None:
    """Download what is missing and keep the digests that the hub lists.

    A download that stops leaves only files under the client's temporary names. Raises
    KeyelabError for no network or a file that is unfinished.
    """
    if not plan.missing:
        on_progress(1.0, "both files are there")
        return
    plan.folder.mkdir(parents=True, exist_ok=True)
    # one line of the client's own progress bar in five seconds
    quiet = {**env, "TQDM_MININTERVAL": "5"}
    try:
        shell.run(
            plan.command, env=quiet, log=log, on_line=lambda line: on_progress(None, line.strip())
        )
    except CommandFailed as error:
        raise hub.undelivered(plan.origin, error.message) from None
    _refuse_unfinished(plan.folder, plan.names)
    # of both files: one may have come whole before an earlier download stopped
    digests = {name: item.sha256 for name, item in plan.listed.items() if item.sha256}
    if digests:
        digest.add_sums(plan.folder, digests)


def _folder(params: ModelFetch, workdir: Path) -> Path:
    where, repo = params.model_dir, params.repo
    if params.source == "packaged":
        needed, given = "neither model_dir nor repo", not (where or repo)
    elif params.source == "path":
        needed, given = "model_dir, the folder of the files", bool(where)
    else:
        needed, given = "repo as owner/name", bool(re.fullmatch(r"[\w.-]+/[\w.-]+", repo))
    if not given:
        raise UsageError(
            f"source {params.source!r} needs {needed}, found model_dir {where!r} and repo {repo!r}",
            "keyelab run --set model_fetch.source=path --set model_fetch.model_dir=FOLDER",
        )
    if params.source == "packaged":
        return PACKAGED
    return located(where) if where else workdir / "models" / repo


def _unfinished(folder: Path, names: tuple[str, str]) -> list[Path]:
    found = []
    for file in (folder / name for name in names):
        pattern = re.compile(re.escape(file.name) + f"(?:{_UNFINISHED})")
        found += [path for path in file.parent.glob("*") if pattern.fullmatch(path.name)]
    return found


def _refuse_unfinished(folder: Path, names: tuple[str, str]) -> None:
    for path in _unfinished(folder, names):
        raise KeyelabError(
            f"expected finished downloads in {shown(folder)}, found {path.name}",
            f"run that download to its end, or remove what is left of it: rm {shown(path)}",
        )
