"""keyelab diff: what explains the difference of two records."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from keyelab.errors import KeyelabError, UsageError
from keyelab.files import redact, shown, write_text

if TYPE_CHECKING:
    from keyelab.record.comparison.side import Side


@click.command()
@click.argument("a")
@click.argument("b", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option(
    "--html",
    "page",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write one page, side by side.",
)
def diff(a: str, b: str | None, as_json: bool, page: Path | None) -> None:
    """Say what differs between the records A and B, first what explains the outcome.

    A record is a run folder, a run id or its beginning, or a target, which stands for its newest
    run. One alone is compared with the run before it. Exit codes: 0 nothing that matters differs,
    1 something does, 2 usage, or no record there.

    What matters are inputs, outcomes, checks, answers, counted tokens, and speeds whose repeated
    measurements lie further apart than two runs of the same. What was measured once is told and
    does not count; nor do times, process ids, ports, run ids, and what one side does not know.

    \b
    --json prints one object; schema is 1:
      differs    whether something that matters differs
      a b        {folder run_id target status started duration_s keyelab doubts}
      explained  the first phase whose outcome differs, or null
      outcomes   [{phase a b reason}] that differ
      failures   {a b}: {phase status kind cell log message}, or null
      causes     [{key topic phase name a b sources follows}], the nearest first; follows holds
                 what came of each, in the same shape. unrelated (no input of the explained
                 phase), results (checks, answers), unknown (on one side), other_source (a
                 parameter's same value): the same shape
      numbers    [{name unit phase a b duration ratio verdict matters}]
      sweeps     {allowed effects}, as keyelab perf --compare gives them, or null
      patches    [{name only lines}], the diff of the diffs; only is a, b or ''
      equal      topics without a difference; notebooks: nbdime commands
    """
    from keyelab.pipeline import NEEDS
    from keyelab.record.comparison import side, text
    from keyelab.record.diff import diff as compare

    try:
        if b is None:
            other = side.read(a)
            one = side.before(other)
        else:
            one, other = side.read(a), side.read(b)
        content = compare(one, other, NEEDS, _sweeps)
    except KeyelabError as error:
        raise UsageError(error.message, error.hint) from None  # 1 says that records differ
    except OSError as error:
        raise UsageError(f"expected records that can be read, found: {error}") from None
    if page is not None:
        from keyelab.record.comparison.page import html

        _write(page, html(content, one, other))
    if as_json:
        click.echo(redact(json.dumps(content, indent=2, ensure_ascii=False)))
    else:
        for line in text.lines(content):
            click.echo(redact(line))
        if page is not None:
            click.echo(f"page: {shown(page)}")
    sys.exit(1 if content["differs"] else 0)


def _write(page: Path, text: str) -> None:
    try:
        write_text(page, text)
    except OSError as error:
        found = error.strerror or str(error)
        raise UsageError(f"expected to write {shown(page)}, found: {found}") from None


def _sweeps(a: Side, b: Side) -> dict[str, Any] | None:
    """The repeated measurements of both; None when they cannot be held against each other."""
    from keyelab.perf import compare

    try:
        told = compare.compare([a.folder], [b.folder], compare.MUST_EQUAL)
    except KeyelabError:
        return None
    return {name: told[name] for name in ("allowed", "effects")}
