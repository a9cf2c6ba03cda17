"""A checkout with one sealed run that is shaped as real ones are and took no kernel to make."""

from __future__ import annotations

import hashlib
import subprocess
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import nbformat
import pytest

from keyelab.checks import check
from keyelab.files import read_json, redacted, sha256_file, sha256_tree, write_json, write_text
from keyelab.params import PARAMETERS
from keyelab.patching.plan import unified
from keyelab.record import cards, seal
from keyelab.record import run as records

RUN_ID = "20261130T120000Z-0a1b2c3d"
STARTED = datetime(2026, 11, 30, 12, 0, tzinfo=timezone.utc)
LOG = "logs/06_serve-server-8080.log"
KERNELS = {
    "src/norm.cu": "int norm() {\n    return 1024;\n}\n",
    "src/softmax.cu": "int softmax() {\n    return 1024;\n}\n",
}
FINISH = "step.finish(facts)"


def make_run(root: Path) -> Path:
    """Make `root` a checkout and return its run folder, records/cpu-demo/<run>."""
    with pytest.MonkeyPatch.context() as patch:
        (root / "notebooks").mkdir()
        patch.setenv("KEYELAB_HOME", str(root))
        patch.setattr("keyelab.record.page.write_pages", lambda run, folder: None)
        return _made(root)


def rewrite(folder: Path, name: str, edit: Callable[[Any], object]) -> None:
    """Edit a JSON file of a run as a forger would, who makes SHA256SUMS fit."""
    content = read_json(folder / name)
    edit(content)
    write_json(folder / name, content)
    reseal(folder)


def reseal(folder: Path) -> None:
    """Write SHA256SUMS anew."""
    names = set(seal.listed(folder)) - {LOG}
    lines = [f"{sha256_file(folder / name)}  {name}\n" for name in sorted(names)]
    write_text(folder / seal.SUMS, "".join(lines))


def _made(root: Path) -> Path:
    for phase in PARAMETERS:
        _source(root, phase)
    (root / "params").mkdir()
    write_text(root / ".gitignore", "/records/\n/work/\n")
    for words in (["init", "--quiet"], ["add", "."], ["commit", "--quiet", "-m", "notebooks"]):
        named = ["-c", "user.name=nobody", "-c", "user.email=nobody@localhost"]
        subprocess.run(["git", *named, *words], cwd=root, check=True)
    folder = root / "records" / "cpu-demo" / RUN_ID
    facts = _facts(root, folder)
    run = records.Run(
        run_id=RUN_ID,
        target="cpu-demo",
        started=_stamp(0),
        finished=_stamp(80),
        duration_s=80.0,
        status="passed",
        command=["keyelab", "run"],
        pid=1,
        tool=records.tool(),
        python_packages_sha256=seal.freeze(folder),
        phases=[_phase(root, folder, n, phase, facts[phase]) for n, phase in enumerate(PARAMETERS)],
    )
    write_text(folder / "index.html", "<h1>passed</h1>\n")
    write_text(folder / LOG, "main: model loaded\n")
    write_text(folder / "logs" / "05_build.log", "ninja: done\n" * 40)
    (folder / "plots").mkdir()
    (folder / "plots" / "08_perf_analysis-load.png").write_bytes(bytes(range(256)))
    seal.seal(run, folder, [folder / LOG])
    return folder


def _stamp(seconds: float) -> str:
    return (STARTED + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def _clock(seconds: float) -> str:
    return (STARTED + timedelta(seconds=seconds)).isoformat(timespec="microseconds")


def _source(root: Path, phase: str) -> None:
    model = PARAMETERS[phase]
    lines = [f"{name} = {field.default!r}" for name, field in model.model_fields.items()]
    cells = [
        nbformat.v4.new_markdown_cell(f"# {phase}", id="goal"),
        nbformat.v4.new_code_cell("\n".join(lines), id="params"),
        nbformat.v4.new_code_cell(f"facts = {phase}()", id="do"),
        nbformat.v4.new_code_cell(FINISH, id="finish"),
    ]
    cells[1].metadata["tags"] = ["parameters"]
    path = root / "notebooks" / f"{records.stem(phase)}.ipynb"
    path.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(nbformat.v4.new_notebook(cells=cells), path)


def _phase(
    root: Path, folder: Path, number: int, phase: str, facts: dict[str, Any]
) -> records.PhaseRecord:
    given = {"workdir": "work"}
    if phase == "header_fixes":
        given["headers_root"] = "toolkit"
    model = PARAMETERS[phase]
    parameters = {
        name: {"value": given[name], "source": "phase"}
        if name in given
        else {"value": field.default, "source": "default"}
        for name, field in model.model_fields.items()
    }
    checks = [check(f"{phase} did it", True, expected="done", found=f"done {number}")]
    begun = number * 10.0
    stem = records.stem(phase)
    source = root / "notebooks" / f"{stem}.ipynb"
    given["run_dir"] = f"records/cpu-demo/{RUN_ID}"
    notebook = _executed(read_json(source), begun, given)
    said = cards.verdict(stem, "passed", checks, "", "cpu-demo")
    output = nbformat.v4.new_output("display_data", data={"text/markdown": said})
    notebook["cells"][-1]["outputs"] = [output]
    write_json(folder / f"{stem}.ipynb", redacted(notebook))
    write_text(folder / f"{stem}.html", f"<h1>{stem}</h1>\n")
    left = {"status": "passed", "reason": "", "facts": facts, "duration_s": 6.0}
    left |= {"checks": [item.model_dump() for item in checks]}
    write_json(folder / "facts" / f"{phase}.json", left)
    return records.PhaseRecord(
        phase=phase,
        notebook=source.name,
        notebook_sha256=sha256_file(source),
        status="passed",
        started=_stamp(begun),
        duration_s=8.0,
        parameters=parameters,
        checks=checks,
        facts=facts,
    )


def _executed(notebook: Any, begun: float, given: dict[str, Any]) -> Any:
    """The notebook as the keyelab engine leaves it after eight seconds."""
    text = "# Parameters\n" + "".join(f"{name} = {value!r}\n" for name, value in given.items())
    cell = nbformat.v4.new_code_cell(text, id="injected")
    cell.metadata["tags"] = ["injected-parameters"]
    notebook["cells"].insert(2, cell)
    for number, one in enumerate(notebook["cells"]):
        start = begun + 1 + number
        one["metadata"]["papermill"] = {
            "status": "completed", "exception": False, "duration": 1.0,
            "start_time": _clock(start), "end_time": _clock(start + 1),
        }  # fmt: skip
        if one["cell_type"] == "code":
            one["execution_count"] = number
            one["metadata"]["execution"] = {"shell.execute_reply": _clock(start + 0.9)}
    notebook["metadata"]["keyelab"] = {"schema": 1, "outcome": "completed", "reason": ""}
    notebook["metadata"]["papermill"] = {
        "parameters": given, "exception": None, "duration": 8.0,
        "start_time": _clock(begun), "end_time": _clock(begun + 8),
    }  # fmt: skip
    return notebook


def _facts(root: Path, folder: Path) -> dict[str, dict[str, Any]]:
    """Facts of all phases, and the files that they name."""
    facts: dict[str, dict[str, Any]] = {phase: {} for phase in PARAMETERS}
    for role in ("model", "mmproj"):
        facts["model_fetch"][role] = _file(root, f"models/{role}.gguf")
    facts["build"]["binaries"] = {
        name: _file(root, f"work/builds/0/{name}") for name in ("llama-server", "libllama.so")
    }
    facts["video_test"]["video"] = _file(root, "work/videos/clip.mp4")
    facts["source_patch"] = _patched(root, folder)
    facts["header_fixes"] = _corrected(root, folder)
    return facts


def _file(root: Path, path: str) -> dict[str, Any]:
    content = path.encode() * 100
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_bytes(content)
    digest = hashlib.sha256(content).hexdigest()
    return {"path": path, "sha256": digest, "size_bytes": len(content)}


def _patched(root: Path, folder: Path) -> dict[str, Any]:
    """Three rules, the third of which edits what the first one left."""
    new = root / "work" / "sources" / "new"
    for name, text in KERNELS.items():
        write_text(new / name, text)
    base = sha256_tree(new)
    new = new.rename(new.with_name(base[:12]))
    now, mails = dict(KERNELS), ""
    steps = ("norm 1024 256", "softmax 1024 256", "norm 256 128")
    for number, step in enumerate(steps, 1):
        stem, old, other = step.split()
        name = f"src/{stem}.cu"
        after = now[name].replace(old, other)
        diff = unified(name, now[name], after)
        now[name] = after
        write_text(folder / "patches" / f"{number:02d}-rule-{number}.diff", diff)
        mails += (
            f"From: nobody\nSubject: rule {number}\n\nCause: blocks\n---\n{diff}-- \nkeyelab\n\n"
        )
    write_text(folder / "patches" / "series.mbox", mails)
    tree = sha256_tree(new, replaced={name: text.encode() for name, text in now.items()})
    return {"tree": f"work/sources/{tree[:12]}", "base_sha256": base, "tree_sha256": tree}


def _corrected(root: Path, folder: Path) -> dict[str, Any]:
    """Two rules on one header, whose diffs are not named in their order."""
    texts = ["int any();\nint all();\n", "int any_();\nint all();\n", "int any_();\nint all_();\n"]
    for name, old, new in (("z-any", *texts[:2]), ("a-all", *texts[1:])):
        write_text(folder / "patches" / f"header-{name}.diff", unified("info.h", old, new))
    original = write_text(root / "toolkit" / "include" / "hip" / "info.h", texts[0])
    new = root / "work" / "overlays" / "new"
    write_text(new / "hip" / "info.h", texts[2])
    overlay = new.rename(new.with_name(sha256_tree(new / "hip")[:12]))
    return {
        "overlay": f"work/overlays/{overlay.name}",
        "originals": {"hip/info.h": sha256_file(original)},
        "backup": "",
    }
