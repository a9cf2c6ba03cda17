"""keyelab headers: what 03_header_fixes did to a toolkit in place, taken back."""

from __future__ import annotations

from pathlib import Path

import click

from keyelab.errors import UsageError
from keyelab.files import shown


@click.group()
def headers() -> None:
    """Toolkit headers that 03_header_fixes corrected in place."""


@headers.command()
@click.argument("run", type=click.Path(path_type=Path))
def restore(run: Path) -> None:
    """Put the toolkit headers back that the run folder RUN keeps the originals of."""
    from keyelab.patching import toolkit

    found = sorted((run / "headers").glob(f"*/{toolkit.INDEX}"))
    if not found:
        raise UsageError(
            f"expected a run that corrected headers in place, found no headers/ in {shown(run)}",
            "the run folders: ls records/*",
        )
    put_back = [path for index in found for path in toolkit.restore(index.parent)]
    click.echo("\n".join(f"put back {shown(path)}" for path in put_back) or "nothing to put back")
