"""keyelab perf: what server logs say about speed, and why."""

from __future__ import annotations

import json
from pathlib import Path

import click

from keyelab.errors import UsageError
from keyelab.files import shown, write_text


@click.command()
@click.argument("logs", type=click.Path(path_type=Path), nargs=-1, metavar="[LOG…]")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option(
    "--csv", "folder", type=click.Path(path_type=Path), help="Write the five tables into a folder."
)
@click.option(
    "--compare",
    "runs",
    nargs=2,
    metavar="RUN_A RUN_B",
    help="Compare the sweeps of two run folders, or of several a side, comma between.",
)
@click.option(
    "--allow",
    multiple=True,
    metavar="WHAT",
    help="With --compare: another model, projector, build or prompt is meant.",
)
@click.option("--frames", type=click.IntRange(0), help="Predict a video request: its frames,")
@click.option("--answer", type=click.IntRange(1), help="the tokens of its answer,")
@click.option("--question", type=click.IntRange(0), default=0, help="and those of its text.")
def perf(
    logs: tuple[Path, ...],
    as_json: bool,
    folder: Path | None,
    runs: tuple[str, str] | None,
    allow: tuple[str, ...],
    frames: int | None,
    answer: int | None,
    question: int,
) -> None:
    """Explain the speed of llama-server from its logs LOG…, of any build since 2023.

    Load time by parts, requests, decode speed against depth with a 95 % interval, images, queueing,
    prompt cache, graphs. What a log does not hold is unknown. Exit codes: 0 ok, 1 a file is no
    server's log, 2 usage.

    --compare instead holds the sweeps of runs of 08_perf_analysis against each other: parameters
    that differ, the ratio b / a of each measure with a 95 % bootstrap interval over runs and their
    repetitions. It refuses runs of another model, projector, build or prompt without --allow.

    \b
    --json prints one object; schema is 1:
      servers  [{server file line source build slots context_tokens …stamps_s… load decode images
                 queueing cache graphs prediction tasks}]
    With --compare it is {schema runs allowed parameters effects}.
    --csv writes servers.csv, tasks.csv, samples.csv, chunks.csv and events.csv.
    """
    from keyelab.perf.summary import as_json as content
    from keyelab.perf.summary import lines
    from keyelab.perf.tables import read_tables

    if runs:
        if logs or folder or frames is not None:
            raise UsageError(
                "expected --compare without a log, found both", "keyelab perf --compare RUN_A RUN_B"
            )
        _compare(runs, allow, as_json)
        return
    if not logs:
        raise UsageError("expected a log file, found none", "keyelab perf LOG")
    for log in logs:
        if not log.is_file():
            found = "a folder" if log.is_dir() else "none"
            raise UsageError(f"expected a log file at {shown(log)}, found {found}", "ls -l")
    if (frames is None) != (answer is None):
        raise UsageError(
            "expected --frames and --answer together, found one of them",
            "keyelab perf LOG --frames 10 --answer 1000",
        )
    tables = read_tables(logs)
    if folder is not None:
        if folder.exists() and not folder.is_dir():
            raise UsageError(f"expected a folder at {shown(folder)}, found a file")
        for name, table in vars(tables).items():
            write_text(folder / f"{name}.csv", table.to_csv(index=False))
    ask = None if frames is None or answer is None else (frames, answer, question)
    if as_json:
        click.echo(json.dumps(content(tables, ask), indent=2, ensure_ascii=False, allow_nan=False))
        return
    for line in lines(tables, ask):
        click.echo(line)
    if folder is not None:
        click.echo(f"tables in {shown(folder)}")


def _compare(runs: tuple[str, str], allow: tuple[str, ...], as_json: bool) -> None:
    from keyelab.perf import compare

    a, b = ([Path(run) for run in side.split(",") if run] for side in runs)
    if not a or not b:
        raise UsageError(
            "expected a run folder on each side, found none", "ls -d records/*/*  # then --compare"
        )
    told = compare.compare(a, b, allow)
    if as_json:
        click.echo(json.dumps(told, indent=2, ensure_ascii=False, allow_nan=False))
        return
    for line in compare.lines(told):
        click.echo(line)
