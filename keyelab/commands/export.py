"""keyelab export: a record in formats that other tools read."""

from __future__ import annotations

from pathlib import Path

import click

from keyelab.record.run import chosen


@click.command()
@click.argument("record", type=click.Path(file_okay=False, path_type=Path), required=False)
@click.option("--target", default="cpu-demo", show_default=True, help="Take its newest run.")
@click.option(
    "--format",
    "kind",
    type=click.Choice(["ro-crate", "in-toto"]),
    required=True,
    help="A folder or .zip for people and archives, or a JSON statement for supply-chain tools.",
)
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True)
@click.option(
    "--predicate",
    type=click.Choice(["provenance", "test-result"]),
    default="provenance",
    show_default=True,
    help="in-toto: how it came about (SLSA), or what the checks said.",
)
@click.option("--builder-id", default="", help="in-toto: URI of the platform that ran it.")
@click.option("--license", "license_url", default="", help="ro-crate: URL of the record's licence.")
def export(
    record: Path | None,
    target: str,
    kind: str,
    output: Path,
    predicate: str,
    builder_id: str,
    license_url: str,
) -> None:
    """Write a sealed record as an RO-Crate or an in-toto statement.

    It says what run.json says: a failed run is exported as failed, an unknown value is left out.
    """
    from keyelab.errors import UsageError
    from keyelab.files import shown
    from keyelab.record.export import crate, statement

    folder = chosen(record, target)
    if output.resolve().is_relative_to(folder.resolve()):
        raise UsageError(
            f"expected -o outside the record, found {shown(output)}: a record is never edited",
            "-o a path outside records/",
        )
    if kind == "ro-crate":
        crate.write_crate(folder, output, license_url)
    else:
        statement.write_statement(folder, output, predicate, builder_id)
    click.echo(f"wrote {shown(output)}")
