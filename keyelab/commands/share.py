"""keyelab share: a copy of a record that is safe to publish."""

from __future__ import annotations

import io
import tempfile
import zipfile
from pathlib import Path

import click

from keyelab.errors import KeyelabError, UsageError
from keyelab.files import shown, write_bytes
from keyelab.record.run import chosen

OLDEST = (1980, 1, 1, 0, 0, 0)  # times of files tell nothing


@click.command()
@click.argument("record", type=click.Path(path_type=Path), required=False)
@click.option("--target", default="cpu-demo", show_default=True, help="Take its newest run.")
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), required=True, help="The zip file to write."
)
@click.option("--without-pictures", is_flag=True, help="Leave out the pictures of the video.")
@click.option("--force", is_flag=True, help="Write over a file that is there.")
def share(
    record: Path | None, target: str, output: Path, without_pictures: bool, force: bool
) -> None:
    """Write a copy of a record that is safe to publish, as a zip file.

    Names of hosts, users and folders, addresses, serial numbers and keys get aliases, the same
    one everywhere. Look at the list before publishing: a name that nothing tells for one stays.
    """
    from keyelab.record.sharing.copy import share as copy_of
    from keyelab.record.sharing.report import summary

    folder = chosen(record, target)
    _require_free(output, folder, force)
    try:
        with tempfile.TemporaryDirectory(prefix="keyelab-share-") as name:
            shared = copy_of(folder, Path(name), not without_pictures)
            content = _zipped(shared.folder)
        write_bytes(output, content)
    except OSError as error:
        raise KeyelabError(
            f"expected to write {shown(output)}, found: {error.strerror or error}",
            "name another file with -o, or with TMPDIR another folder for the copy",
        ) from None
    lines = summary(shared.used, shared.left_out)
    for line in lines or ["  nothing was found to replace"]:
        click.echo(line)
    click.echo(f"{shown(output)}: a copy of {shown(folder)}, {len(content) / 2**20:.1f} MiB")


def _require_free(output: Path, folder: Path, force: bool) -> None:
    if output.suffix != ".zip" or output.is_dir():
        raise UsageError(
            f"expected -o FILE.zip, found {shown(output)}",
            f"keyelab share {shown(folder)} -o {folder.name}.zip",
        )
    if output.resolve().is_relative_to(folder.resolve()):
        raise UsageError(
            f"expected an -o outside of the record, found {shown(output)}",
            f"keyelab share {shown(folder)} -o {folder.name}.zip",
        )
    if output.exists() and not force:
        raise KeyelabError(
            f"expected no file at {shown(output)}, found one", "add --force to write over it"
        )


def _zipped(folder: Path) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                name = path.relative_to(folder.parent).as_posix()
                archive.writestr(
                    zipfile.ZipInfo(name, OLDEST), path.read_bytes(), zipfile.ZIP_DEFLATED
                )
    return stream.getvalue()
