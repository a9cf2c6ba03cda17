"""keyelab probe: ask the card itself what it runs, and say which recipe follows."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import click

LOG = "work/probe.log"


@click.command()
@click.option("--compiler", default="hipcc", show_default=True, help="HIP compiler.")
@click.option(
    "--arch", default="gfx928", show_default=True, help="The compiler's name of the card."
)
@click.option(
    "--toolkit-root", default="/opt/dtk", show_default=True, help="Folder whose env.sh is loaded."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--log", type=click.Path(path_type=Path), help=f"Transcript; else {LOG}.")
def probe(compiler: str, arch: str, toolkit_root: str, as_json: bool, log: Path | None) -> None:
    """Compile and run a small HIP program on the first card.

    It launches blocks of 512 and 1,024 threads with and without bounds, and computes the two dot
    products of gcn-dot. HIP_VISIBLE_DEVICES picks another card. The toolkit's env.sh is loaded
    first, where there is one. Exit codes: 0 settled, 1 something stayed unknown, 2 usage.
    """
    from keyelab import shell
    from keyelab.files import located, shown
    from keyelab.host import card, toolkit
    from keyelab.host.probe import transcript
    from keyelab.patching.choice import DEFAULT, choose

    log = log or located(LOG)
    kit = toolkit.load(toolkit_root, "hip", os.environ, log.with_suffix(".env-sh.log"))
    env = shell.environment("", kit.difference)
    seen = card.read(transcript(compiler, arch, env, log))
    choice = choose(DEFAULT, seen.facts)
    if as_json:
        content = {
            "schema": 1,
            "unknown": seen.unknown,
            "facts": seen.facts.model_dump(),
            "reasons": seen.reasons,
            "recipe": choice.name,
            "chosen": choice.rows(),
            "log": shown(log),
        }
        click.echo(json.dumps(content, indent=2, ensure_ascii=False))
    else:
        for row in seen.rows():
            click.echo(f"{row['fact']:22} {row['value']:8} {row['because']}")
        for one in choice.rows():
            click.echo(f"recipe {one['recipe']:10} {one['verdict']}: {one['because']}")
        click.echo(f"transcript {shown(log)}")
        if seen.unknown:
            click.echo(
                "  next: read the transcript; without hipcc or its libraries, name the toolkit's "
                "folder: keyelab probe --toolkit-root /opt/dtk"
            )
    sys.exit(1 if seen.unknown else 0)
