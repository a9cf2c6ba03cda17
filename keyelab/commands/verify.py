"""keyelab verify: is a record what the run left?"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from keyelab.errors import KeyelabError, UsageError
from keyelab.files import shown
from keyelab.record.run import chosen


@click.command()
@click.argument("record", type=click.Path(path_type=Path), required=False)
@click.option("--target", default="cpu-demo", show_default=True, help="Take its newest run.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--quick", is_flag=True, help="Leave out files outside of the record: unknown then.")
@click.option(
    "--sign", type=click.Path(path_type=Path), metavar="KEY", help="Sign it when nothing failed."
)
@click.option("--require-signer", "signer", metavar="NAME", help="Who has to have signed it.")
@click.option(
    "--allowed-signers",
    "allowed",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Names and keys, as ssh-keygen reads them.",
)
def verify(
    record: Path | None,
    target: str,
    as_json: bool,
    quick: bool,
    sign: Path | None,
    signer: str | None,
    allowed: Path | None,
) -> None:
    """Check that a record is unedited and claims only what ran.

    What is not here to compare with is unknown, never ok. A signature is SHA256SUMS.sig beside
    SHA256SUMS, made by ssh-keygen in the namespace keyelab-record. Exit code 1 when a check
    failed, else 0.

    \b
    --json prints a list: [{name, status, expected, found, remedy}],
    status ok, warned, failed or unknown.
    """
    from keyelab.record import signature
    from keyelab.record.verify import sentence
    from keyelab.record.verify import verify as verify_run

    if sign and (signer or allowed):
        raise UsageError(
            "expected --sign or --require-signer, found both",
            "sign it first, then verify the signature",
        )
    if sign:
        signature.require_key(sign)  # before minutes of reading
    folder = chosen(record, target)
    results = verify_run(folder, quick=quick, signer=signer, allowed=allowed, say=_say)
    failed = any(item.status == "failed" for item in results)
    if sign and failed:
        raise KeyelabError(
            f"nothing was signed: {sentence(results)}", f"keyelab verify {shown(folder)}"
        )
    if as_json:
        click.echo(json.dumps([item.model_dump() for item in results], indent=2))
    else:
        for item in results:
            click.echo(f"{item.status:7} {item.name}: {item.found}")
            if item.remedy:
                click.echo(f"        expected {item.expected}; {item.remedy}")
    if sign:
        made = signature.sign(folder, sign)
        _say(f"signed: {shown(made)}")
    if not as_json:
        click.echo(f"{shown(folder)} {sentence(results)}")
    sys.exit(1 if failed else 0)


def _say(line: str) -> None:
    click.echo(line, err=True)
