"""The pages of a run: index.html and one HTML for each executed notebook.

They load nothing: styles and pictures are inside, there is no script, and they print.
"""

from __future__ import annotations

import base64
import json
import shlex
from pathlib import Path

from keyelab.checks import Check
from keyelab.files import write_text
from keyelab.record.cards import diff_size
from keyelab.record.run import PhaseRecord, Run, resume_command
from keyelab.record.template import render

# what JupyterLab's own style sheets would give: commands in a fixed width, wide tables that scroll
NOTEBOOK_STYLE = (
    "<style>.jp-RenderedMarkdown pre, .jp-RenderedMarkdown code { font-family: ui-monospace, "
    '"DejaVu Sans Mono", monospace; } .jp-RenderedMarkdown pre { white-space: pre-wrap; padding: '
    "0.6em; background: #f5f7fa; border: 1px solid #dde3ea; } "
    ".jp-RenderedMarkdown { overflow-x: auto; }</style>"
)
SPEED_COLUMNS = (
    ("task", "task"),
    ("images", "images"),
    ("prompt_tokens", "prompt (tokens)"),
    ("prompt_ms", "prompt (ms)"),
    ("prefill_tps", "prefill (tokens/s)"),
    ("decode_tokens", "answer (tokens)"),
    ("decode_ms", "answer (ms)"),
    ("decode_tps", "decode (tokens/s)"),
)


def write_pages(run: Run, folder: Path) -> None:
    """Write NN_phase.html for each notebook of a run, then index.html."""
    for phase in run.phases:
        notebook = folder / phase.notebook
        page = notebook.with_suffix(".html")
        if notebook.exists() and not (phase.reused_from and page.exists()):
            write_text(page, notebook_html(notebook))
    write_text(folder / "index.html", index_html(run, folder))


def notebook_html(path: Path) -> str:
    """An executed notebook as one offline HTML file."""
    from nbconvert import HTMLExporter

    exporter = HTMLExporter(template_name="lab")
    for name in (
        "require_js_url", "mathjax_url", "jquery_url", "mermaid_js_url",
        "jupyter_widgets_base_url", "html_manager_semver_range", "widget_renderer_url",
    ):  # fmt: skip
        if exporter.has_trait(name):
            setattr(exporter, name, "")
    exporter.embed_images = True
    text, _ = exporter.from_filename(str(path))
    return _without_scripts(text).replace("</head>", f"{NOTEBOOK_STYLE}</head>", 1)


def index_html(run: Run, folder: Path) -> str:
    """The page of a run."""
    facts = {phase.phase: phase.facts or {} for phase in run.phases}
    return render(
        "index.html.j2",
        run=run,
        facts=facts,
        counts=sum(phase.status in ("passed", "warned") for phase in run.phases),
        attention=attention(run.phases),
        resume=resume_command(run),
        failed=next((phase for phase in run.phases if phase.failure), None),
        frames=picture(folder / "plots" / "07_video_test-frames.png"),
        plots=[
            (path.stem.split("-", 1)[-1].replace("-", " "), picture(path))
            for path in sorted((folder / "plots").glob("08_*.png"))
        ],
        diffs=[
            (path.name, diff_size(text), diff_lines(text))
            for path in sorted((folder / "patches").glob("*"))
            if (text := path.read_text(encoding="utf-8", errors="replace"))
        ],
        columns=SPEED_COLUMNS,
        commands=repeat_commands(run),
        pages={p.phase for p in run.phases if (folder / p.notebook).exists()},
    )


def attention(phases: list[PhaseRecord]) -> list[tuple[str, Check]]:
    """Checks that did not pass, with the phase they belong to."""
    return [(p.phase, item) for p in phases for item in p.checks if item.status != "ok"]


def diff_lines(text: str) -> list[tuple[str, str]]:
    """(class, line) of a unified diff."""
    kinds = {"+": "add", "-": "del", "@": "at"}
    return [
        ("head" if line.startswith(("+++", "---")) else kinds.get(line[:1], ""), line)
        for line in text.splitlines()
    ]


def repeat_commands(run: Run) -> list[str]:
    """What to type to make this run again: with keyelab, and phase by phase with papermill."""
    lines = [f"git checkout {run.tool.commit}"] if run.tool.commit else []
    lines.append(shlex.join(run.command))
    for phase in run.phases:
        if not phase.started:
            continue
        files = f"-f params/{run.target}/common.yaml -f params/{run.target}/{phase.phase}.yaml"
        over = [
            f"-y {shlex.quote(json.dumps({name: item['value']}, ensure_ascii=False))}"
            for name, item in phase.parameters.items()
            if item["source"] == "override"
        ]
        lines.append(
            " ".join(
                [f"papermill notebooks/{phase.notebook} out.ipynb --engine keyelab", files, *over]
            )
        )
    return lines


def picture(path: Path) -> str:
    """A PNG as a data URI; '' when it is not there."""
    if not path.exists():
        return ""
    return "data:image/png;base64," + base64.b64encode(path.read_bytes()).decode()


def _without_scripts(text: str) -> str:
    """Drop nbconvert's script elements: they only serve maths and widgets, which are not used."""
    kept: list[str] = []
    rest = text
    while "<script" in rest:
        before, rest = rest.split("<script", 1)
        kept.append(before)
        rest = rest.split("</script>", 1)[1] if "</script>" in rest else ""
    return "".join([*kept, rest])
