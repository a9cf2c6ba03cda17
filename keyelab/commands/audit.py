"""keyelab audit: what a llama.cpp tree launches on a card, and where host and device differ."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path

import click

from keyelab.checks import worst


@click.command()
@click.argument("tree", type=click.Path(path_type=Path))
@click.option("--arch", default="gfx928", show_default=True, help="The compiler's name of a card.")
@click.option("--limit", default=256, show_default=True, help="Most threads without a bound.")
@click.option("--compile", "compiles", is_flag=True, help="Also compile some kernels and compare.")
@click.option("--compiler", default="hipcc", show_default=True, help="HIP compiler for --compile.")
@click.option("--flag", "flags", multiple=True, help="For the compiler; repeat for more.")
@click.option("--file", "files", multiple=True, help="Of ggml-cuda, to compile; repeat for more.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def audit(
    tree: Path,
    arch: str,
    limit: int,
    compiles: bool,
    compiler: str,
    flags: tuple[str, ...],
    files: tuple[str, ...],
    as_json: bool,
) -> None:
    """List the kernel launches of TREE that are too large, disagree, or cannot be told.

    Then what the host chooses for the chip against what the device compiles. With --compile a few
    kernels are compiled for it, which takes minutes. Exit codes: 0 every check holds, 1 one failed,
    2 usage.

    \b
    --json prints one object; schema is 1, tree a path, threads null when not known:
      schema tree arch limit outcome kernels (with --compile: rows of text by column)
      launches: [{file, line, kernel, block, threads, why, compiled, agrees, bound, allowed,
                  slots, quantized, ops}]
      checks: [{name, status, expected, found, remedy}]
    """
    from keyelab.files import shown
    from keyelab.patching.agreement import agreement_checks
    from keyelab.patching.audit import bound_check, launch_checks, remarks
    from keyelab.patching.compiled import SAMPLE, compiled_checks, started
    from keyelab.patching.launches import launches

    found = launches(tree, arch)
    checks = [
        *launch_checks(found, limit),
        bound_check(found, limit),
        *agreement_checks(tree, arch),
    ]
    kernels: list[dict[str, str]] = []
    if compiles:
        starts = started(found)
        kernels, more = compiled_checks(tree, compiler, arch, flags, files or SAMPLE, starts)
        checks += more
    outcome = worst(checks)
    if as_json:
        content = {
            "schema": 1,
            "tree": shown(tree),
            "arch": arch,
            "limit": limit,
            "outcome": outcome,
            "kernels": kernels,
            "launches": [asdict(launch) for launch in found],
            "checks": [one.model_dump() for one in checks],
        }
        click.echo(json.dumps(content, indent=2, ensure_ascii=False))
    else:
        rows = [(launch, text) for launch in found if (text := remarks(launch, limit))]
        wide = max((len(launch.place) for launch, _ in rows), default=0)
        for launch, text in rows:
            click.echo(f"{launch.place:{wide}}  {text}  {' '.join(launch.ops)}".rstrip())
        idle = sum(launch.threads == 0 for launch in found)
        click.echo(f"{len(found)} launches, {len(rows)} listed, {idle} never started on {arch}")
        for row in kernels:
            click.echo("; ".join(f"{name} {value}" for name, value in row.items()))
        for one in checks[:4]:
            click.echo(f"{one.status:7} {one.name}")
        for one in checks[4:]:
            click.echo(f"{one.status:7} {one.name}: {one.expected}; {one.found}".rstrip("; "))
    sys.exit(1 if outcome == "failed" else 0)
