"""keyelab: run, status, stop, patch, headers, audit, probe, diagnose, perf, verify, share,
diff, report, export.

Exit codes: 0 ok, 1 failed, 2 usage, 3 internal, 130 interrupted, 138 dead kernel.
"""

from __future__ import annotations

import json
import signal
import sys
import tempfile
import traceback
from typing import Any

import click

from keyelab import __version__
from keyelab.commands.audit import audit
from keyelab.commands.diagnose import diagnose
from keyelab.commands.diff import diff
from keyelab.commands.export import export
from keyelab.commands.headers import headers
from keyelab.commands.patch import patch
from keyelab.commands.perf import perf
from keyelab.commands.probe import probe
from keyelab.commands.report import report
from keyelab.commands.share import share
from keyelab.commands.verify import verify
from keyelab.errors import KeyelabError, UsageError
from keyelab.files import located, redact, shown
from keyelab.params import targets
from keyelab.record.run import NEWEST

INTERNAL, INTERRUPTED = 3, 130


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="keyelab")
def cli() -> None:
    """A bare server to a verified, measured llama.cpp deployment, phase by phase."""


@cli.command()
@click.option("--target", default="cpu-demo", show_default=True, help="Folder under params/.")
@click.option("--from", "first", help="First phase to run; earlier ones are reused.")
@click.option("--to", "last", help="Last phase to run.")
@click.option("--set", "settings", multiple=True, metavar="PHASE.KEY=VALUE", help="Override.")
@click.option("--dry-run", is_flag=True, help="Show what every phase would do and do nothing.")
@click.option(
    "--resume", metavar="[RUN]", is_flag=False, flag_value=NEWEST,
    help="Go on from a run that did not end well, with its settings; the newest if none is named.",
)  # fmt: skip
@click.option(
    "--close", metavar="[RUN]", is_flag=False, flag_value=NEWEST,
    help="Seal a run whose process is gone as interrupted, and end its servers.",
)  # fmt: skip
def run(
    target: str,
    first: str | None,
    last: str | None,
    settings: tuple[str, ...],
    dry_run: bool,
    resume: str | None,
    close: str | None,
) -> None:
    """Run the phases of a target and leave a sealed record."""
    from keyelab import pipeline
    from keyelab import resume as resuming

    if (resume or close) and (first or last or dry_run or (resume and close)):
        raise UsageError(
            "expected --resume or --close alone: the run has its own --from, --to and target",
            "with --resume only --set may be given, on top of the run's settings",
        )
    if close:
        folder, code = resuming.close(close, target, _say), 0
    elif resume:
        folder, code = resuming.resume(resume, target, settings, _say)
    else:
        todo = pipeline.plan(target, first, last, resuming.overrides(settings), dry_run)
        words = ["--target", target, *(["--from", first] if first else [])]
        words += [*(["--to", last] if last else []), *(w for s in settings for w in ("--set", s))]
        words += ["--dry-run"] if dry_run else []
        folder, code = pipeline.run(todo, ["keyelab", "run", *words], _say)
    for line in pipeline.summary(folder):
        _say(line)
    for one in resuming.lines([target]):
        _say(_broken_off(one))
    sys.exit(code)


def _broken_off(one: dict[str, str]) -> str:
    phase = f" {one['phase']}" if one["phase"] else ""
    return f"run {one['run']} did not end{phase} ({one['why']}): {one['resume']}, or --close"


@cli.command()
@click.option("--workdir", default="work", show_default=True, help="Folder of the servers' states.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def status(workdir: str, as_json: bool) -> None:
    """List the servers that keyelab started here, the newest run of each target, and runs that
    were broken off.

    A server is starting, ready, degraded (it lives and cannot be trusted), stopping or stopped
    (it ended by itself). Exit code 1 when one is degraded or has stopped, else 0.
    """
    from keyelab.record.run import latest, load
    from keyelab.resume import lines
    from keyelab.serving.status import rows

    servers = rows(located(workdir))
    runs = [
        {"target": name, "run": shown(folder), "status": load(folder).status}
        for name in targets()
        if (folder := latest(name))
    ]
    broken = list(lines(targets()))
    content = {"servers": servers, "runs": runs, "broken_off": broken}
    if as_json:
        click.echo(redact(json.dumps(content, indent=2)))
    else:
        for one in servers:
            why = f": {one['why']}" if one["why"] else ""
            _say(f"server {one['url']} pid {one['pid']} {one['state']} (run {one['run']}){why}")
        for item in runs:
            click.echo(f"run {item['run']} {item['status']}")
        for one in broken:
            _say(_broken_off(one))
        if not servers:
            click.echo("no server")
    sys.exit(1 if any(one["state"] in ("degraded", "stopped") for one in servers) else 0)


@cli.command()
@click.option("--workdir", default="work", show_default=True, help="Folder of the servers' states.")
@click.option("--port", type=int, help="Stop only the server on this port.")
def stop(workdir: str, port: int | None) -> None:
    """Stop the servers that keyelab started here.

    Waits until processes and port are gone and the cards' memory is as before the start. One that
    cannot be stopped does not keep the others running.
    """
    from keyelab.record import scratch
    from keyelab.serving.process import stop as stop_server
    from keyelab.serving.state import all_states

    failed: KeyelabError | None = None
    chosen = [s for s in all_states(located(workdir)) if port in (None, s.port)]
    if port is not None and not chosen:
        raise KeyelabError(
            f"expected a server of keyelab on port {port}, found none", "keyelab status"
        )
    for state in chosen:
        try:
            done = stop_server(state)
        except KeyelabError as error:
            failed = failed or error
            click.echo(redact(error.message), err=True)
            continue
        memory = f", device memory {done.memory}" if done.memory else ""
        click.echo(f"stopped the server on port {state.port} ({done.how}{memory})")
    for run_dir in {s.run_dir for s in chosen} - {s.run_dir for s in all_states(located(workdir))}:
        scratch.remove(located(run_dir))
    if not chosen:
        click.echo("no server to stop")
    if failed:
        raise failed


for command in (patch, headers, audit, probe, diagnose, perf, verify, share, diff, report, export):
    cli.add_command(command)


def main() -> None:
    """Entry point: expected failures are one sentence and a hint, others keep a traceback."""
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        cli.main(standalone_mode=False)
    except KeyelabError as error:
        _fail(f"keyelab: {redact(error.message)}", error.hint, error.exit_code)
    except click.UsageError as error:
        error.show()
        sys.exit(UsageError.exit_code)
    except click.ClickException as error:
        _fail(f"keyelab: {error.format_message()}", "", error.exit_code)
    except (KeyboardInterrupt, click.Abort):
        _fail("keyelab: interrupted", "", INTERRUPTED)
    except Exception:
        with tempfile.NamedTemporaryFile(
            "w", prefix="keyelab-", suffix=".log", delete=False
        ) as log:
            log.write(
                redact(f"keyelab {__version__}, python {sys.version}\n{traceback.format_exc()}")
            )
        last = traceback.format_exc().strip().splitlines()[-1]
        _fail(f"keyelab: internal error: {last}", f"report it with {log.name}", INTERNAL)


def _say(line: str) -> None:
    click.echo(redact(line))


def _interrupt(number: int, frame: Any) -> None:
    raise KeyboardInterrupt


def _fail(message: str, hint: str, code: int) -> None:
    click.echo(message, err=True)
    if hint:
        click.echo(f"  next: {hint}", err=True)
    sys.exit(code)
