"""keyelab diagnose: what logs say went wrong, and what to type next."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import IO

import click

from keyelab.errors import UsageError
from keyelab.files import redact, shown


@click.command()
@click.argument("files", type=click.Path(path_type=Path), nargs=-1, required=True, metavar="FILE…")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def diagnose(files: tuple[Path, ...], as_json: bool) -> None:
    """Name the first cause of a failure in the logs FILE…, in their order.

    A folder stands for the logs in it, - for standard input. Build, server, kernel and container
    logs are read at any size; what the catalogue does not know is said to be unknown.
    Exit codes: 0 nothing failed, 1 something did, 2 usage.

    \b
    --json prints one object; schema is 1:
      schema failed known lines sources
      causes   [{id, phase, severity, title, cause, remedy, source, line, text, context, count,
                 values: {name: [seen]}, sources}]
      echoes   [{id, line, count}]
      telling  [{source, line, text}], of a cause that is not known
    """
    from keyelab.diagnose import diagnose as diagnosed

    report = diagnosed([log for file in files for log in _logs(file)])
    text = json.dumps(report.as_json(), indent=2, ensure_ascii=False) if as_json else str(report)
    click.echo(redact(text))
    sys.exit(1 if report.failed else 0)


def _logs(file: Path) -> list[Path | IO[bytes]]:
    if str(file) == "-":
        return [sys.stdin.buffer]
    if file.is_dir():
        if found := sorted(path for path in file.rglob("*.log") if path.is_file()):
            return list(found)
        raise UsageError(f"expected logs (*.log) in {shown(file)}, found none")
    if not file.exists():
        raise UsageError(f"expected a log at {shown(file)}, found none", "ls -l")
    return [file]
