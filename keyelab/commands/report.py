"""keyelab report: a run in a few lines, or all runs of a folder on one page."""

from __future__ import annotations

import json
from pathlib import Path

import click

from keyelab.errors import UsageError
from keyelab.files import redact, shown
from keyelab.record.run import chosen


@click.command()
@click.argument("record", type=click.Path(path_type=Path), required=False)
@click.option("--target", default="cpu-demo", show_default=True, help="Take its newest run.")
@click.option(
    "-o", "output", type=click.Path(path_type=Path), metavar="FILE.html",
    help="The page of a folder of runs; FOLDER/index.html when not given.",
)  # fmt: skip
@click.option(
    "--json", "as_json", is_flag=True, help="Print JSON; of a folder, no page without -o."
)
def report(record: Path | None, target: str, output: Path | None, as_json: bool) -> None:
    """Summarize a run and say where its page is; RECORD may be a folder of runs.

    `keyelab report records/` reads the runs at most three folders down and writes one page:
    how each ended, what failed and how often, decode speed over time. Runs that are edited, half
    written or unreadable are listed with the reason. Edited and unreadable ones, dry runs and
    copies are not counted. Only run.json is checked: keyelab verify checks a whole record.

    \b
    --json prints run.json, or of a folder one object; schema is 1:
      schema folder counts
      runs      [{path, status, run_id, target, started, duration_s, notes, …}], newest first
      failures  [{key, id, title, count, first, last, runs}]; id is of the catalogue, or empty
    """
    from keyelab import pipeline
    from keyelab.record import index
    from keyelab.record.found import is_run
    from keyelab.record.run import load

    if record and record.is_dir() and not is_run(record):
        found = index.gather(record)
        if as_json:
            click.echo(json.dumps(index.as_json(found), indent=2, ensure_ascii=False))
        if output or not as_json:
            index.write(found, output or record / "index.html")
        if not as_json:
            for line in index.lines(found):
                click.echo(redact(line))
            click.echo(f"page: {shown(output or record / 'index.html')}")
        return
    if record and record.is_file():
        raise UsageError(
            f"expected a run or a folder of runs, found the file {shown(record)}",
            f"keyelab report {shown(record.absolute().parent)}",
        )
    if output:
        raise UsageError(
            "expected a folder of runs with -o, found a run: its page is in it",
            "keyelab report records/ -o FILE.html",
        )
    folder = chosen(record, target)
    if as_json:
        click.echo(json.dumps(load(folder).model_dump(mode="json"), indent=2, ensure_ascii=False))
        return
    for line in pipeline.summary(folder):
        click.echo(line)
