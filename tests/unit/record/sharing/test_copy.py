"""A shared copy: all of it without what was planted, sealed, and naming its original."""

from __future__ import annotations

import base64
import csv
import io
import json
import re
import struct
import zlib
from pathlib import Path
from typing import Any

import cv2
import nbformat
import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from planted import KINDS, coloured, everything

from keyelab.commands.share import share as share_command
from keyelab.errors import KeyelabError, UsageError
from keyelab.files import sha256_file
from keyelab.params import PARAMETERS
from keyelab.record import run as records
from keyelab.record import seal
from keyelab.record.run import PhaseRecord, Run, Tool
from keyelab.record.sharing.copy import share

LOG = "logs/06_serve-server-8080.log"
NOTEBOOK = "01_env_check.ipynb"


def png(*chunks: tuple[bytes, bytes], after: bytes = b"") -> bytes:
    """A picture of 8 x 6 pixels with more chunks, and bytes after its end."""
    pixels = np.arange(8 * 6 * 3, dtype=np.uint8).reshape(6, 8, 3)
    plain = bytes(cv2.imencode(".png", pixels)[1])
    more = b"".join(
        struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        for kind, body in chunks
    )
    return plain[:33] + more + plain[33:] + after


def planted_png(text: str) -> bytes:
    """A picture that says `text` in every place that PNG has for it."""
    raw = text.encode()
    return png(
        (b"tEXt", b"Author\0" + raw),
        (b"zTXt", b"Comment\0\0" + zlib.compress(raw)),
        (b"iTXt", b"Title\0\1\0\0\0" + zlib.compress(raw)),
        (b"eXIf", raw),
        (b"prVt", raw),
        after=raw,
    )


def notebook(parameters: dict[str, Any], texts: list[str], metadata: dict[str, Any]) -> Any:
    """An executed notebook that has the texts in all of its parts."""
    from papermill.translators import PythonTranslator

    picture = base64.b64encode(planted_png("\n".join(texts))).decode()
    outputs = [
        nbformat.v4.new_output("stream", text="\n".join(texts) + "\n"),
        nbformat.v4.new_output("error", ename="E", evalue=texts[0], traceback=texts),
        nbformat.v4.new_output("display_data", {"image/png": picture, "text/plain": texts[0]}),
        nbformat.v4.new_output(
            "display_data", {"application/json": {"said": texts}, "text/plain": "{}"}
        ),
        nbformat.v4.new_output(
            "display_data", {"text/html": f'<img src="data:image/png;base64,{picture}">'}
        ),
    ]
    source = PythonTranslator.codify(parameters, "Parameters")
    cells = [
        nbformat.v4.new_code_cell(source, id="p1", metadata={"tags": ["injected-parameters"]}),
        nbformat.v4.new_code_cell("run()", id="c1", outputs=outputs),
        nbformat.v4.new_markdown_cell("\n\n".join(texts), id="m1", metadata={"note": texts}),
    ]
    known = {"papermill": {"parameters": parameters}, **metadata}
    return nbformat.v4.new_notebook(cells=cells, metadata=known)


def write(folder: Path, texts: list[str]) -> Run:
    """A sealed record of one phase in which the texts stand everywhere."""
    (folder / "logs").mkdir(parents=True)
    parameters = {f"p{n}": text for n, text in enumerate(texts)}
    whole = "\n".join(texts) + "\n"
    nbformat.write(notebook(parameters, texts, {"lab": texts}), folder / NOTEBOOK)
    files = {
        "logs/plain.log": whole,
        "logs/coloured.log": coloured(whole),
        "logs/escaped.jsonl": "".join(json.dumps({"line": text}) + "\n" for text in texts),
        "logs/base64.log": base64.b64encode(whole.encode()).decode(),
        "patches/a.diff": "".join(f"+{line}\n" for line in whole.splitlines()),
        "facts/env_check.json": json.dumps({"facts": parameters, "status": "passed"}),
        "facts/list.json": json.dumps(texts, ensure_ascii=False),
        "page.html": f"<p title='{whole}'>{whole}</p>",
    }
    rows = io.StringIO()
    csv.writer(rows).writerows([["said", "n"], *([text, "1"] for text in texts)])
    files["plots/table.csv"] = rows.getvalue()
    for name, text in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    (folder / "plots" / "a.png").write_bytes(planted_png(whole))
    (folder / "logs" / "core.bin").write_bytes(b"\x7fELF\0" + whole.encode())
    (folder / LOG).write_text("main: model loaded\n")
    recorded = {name: {"value": value, "source": "override"} for name, value in parameters.items()}
    run = Run(
        run_id=folder.name,
        target="cpu-demo",
        status="passed",
        started="2026-12-01T08:00:00Z",
        command=["keyelab", "run", *texts],
        pid=1,
        tool=Tool(),
        phases=[PhaseRecord(phase=p, notebook=f"{records.stem(p)}.ipynb") for p in PARAMETERS],
    )
    run.phases[0].status = "passed"
    run.phases[0].parameters = recorded
    seal.seal(run, folder, [folder / LOG])
    return run


@pytest.fixture
def record(checkout: Any) -> Path:
    """A sealed record of user zqzoe on host qznode7."""
    folder = checkout.root / "records" / "cpu-demo" / "20261201T080000Z-00000001"
    write(folder, ["USER=zqzoe", "ssh zqzoe@qznode7", "zqzoe waits for QZNODE7.lan at 10.9.8.7"])
    return folder


@settings(
    max_examples=2,
    deadline=None,
    phases=[Phase.generate],  # one example takes seconds: no time to shrink it
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(data=st.data())
def test_nothing_planted_is_left_in_the_zip(
    checkout: Any, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    values = [data.draw(st.from_regex(kind.pattern, fullmatch=True)) for kind in KINDS]
    texts = [kind.text.replace("{}", v) for kind, v in zip(KINDS, values, strict=True)]
    home = tmp_path_factory.mktemp("planted")
    folder = home / "20261201T080000Z-00000001"
    folder.mkdir()
    names = [value for value in values if re.fullmatch(r"[\w.@-]+", value)]
    (folder / "logs").mkdir()
    for name in names:
        (folder / "logs" / f"06_serve-{name}.log").write_text("ready\n")
    (folder / "logs").rename(home / "logs")
    write(folder, texts)
    for path in (home / "logs").iterdir():
        path.rename(folder / "logs" / path.name)
    seal.seal(records.load(folder), folder, [folder / LOG])
    done = CliRunner().invoke(share_command, [str(folder), "-o", str(home / "x.zip")])
    assert done.exit_code == 0, done.output
    read = everything((home / "x.zip").read_bytes())
    assert "main: model loaded" in read
    left = [(k.name, v) for k, v in zip(KINDS, values, strict=True) if v in read]
    assert left == [], read[read.index(left[-1][1]) - 60 :][:160]
    assert [v for v in values if v in done.output] == []


def invoke(*words: Any) -> Any:
    """keyelab share with these words."""
    return CliRunner().invoke(share_command, [str(word) for word in words])


def digests(folder: Path) -> dict[str, str]:
    """Digest and time of every file below a folder."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path): f"{sha256_file(path)} {path.stat().st_mtime_ns}" for path in files}


def test_copy_is_sealed_and_names_its_original_which_stays_as_it_was(
    record: Path, tmp_path: Path
) -> None:
    before = digests(record)
    shared = share(record, tmp_path)
    assert digests(record) == before
    assert seal.edits(shared.folder) == []
    original = records.load(shared.folder).original
    assert original is not None
    assert original.run_id == record.name == shared.folder.name
    assert original.sums_sha256 == sha256_file(record / seal.SUMS)


def test_same_host_and_user_have_the_same_alias_in_every_file(record: Path, tmp_path: Path) -> None:
    shared = share(record, tmp_path)
    facts = json.loads((shared.folder / "facts" / "list.json").read_text())
    assert facts == ["USER=user-a", "ssh user-a@host-a", "user-a waits for host-a at ip-a"]
    for name in ("logs/plain.log", "plots/table.csv", "index.html", "01_env_check.html"):
        assert "ssh user-a@host-a" in (shared.folder / name).read_text().replace("&#64;", "@"), name


def test_report_counts_aliases_and_never_says_a_value(record: Path, tmp_path: Path) -> None:
    shared = share(record, tmp_path)
    text = (shared.folder / "SHARED.md").read_text()
    assert shared.used["ip", "ip-a", "logs/plain.log"] == 1
    assert re.search(r"\| `user-a` \| user \| \d+ \| 01_env_check.ipynb, facts/", text)
    assert "- logs/core.bin: not a text" in text
    assert not re.search("zqzoe|qznode7|10.9.8.7", text, re.IGNORECASE)
    assert not (shared.folder / "logs" / "core.bin").exists()


def test_parameters_of_notebook_and_run_agree(record: Path, tmp_path: Path) -> None:
    shared = share(record, tmp_path)
    book = json.loads((shared.folder / NOTEBOOK).read_text())
    recorded = records.load(shared.folder).phases[0].parameters
    given_ = book["metadata"]["papermill"]["parameters"]
    assert {name: item["value"] for name, item in recorded.items()} == given_
    assert 'p0 = "USER=user-a"' in "".join(book["cells"][0]["source"])


def test_growing_log_is_taken_as_it_was_sealed(record: Path, tmp_path: Path) -> None:
    with (record / LOG).open("a") as log:
        log.write("zqzoe asks again\n")
    shared = share(record, tmp_path)
    assert (shared.folder / LOG).read_text() == "main: model loaded\n"
    assert records.load(shared.folder).growing == {}
    assert LOG in (shared.folder / seal.SUMS).read_text()


def test_copy_of_a_copy_is_the_same_and_names_the_first(record: Path, tmp_path: Path) -> None:
    first = share(record, tmp_path / "1")
    second = share(first.folder, tmp_path / "2")
    assert records.load(second.folder).original == records.load(first.folder).original
    assert second.used == {}
    assert (second.folder / "logs/plain.log").read_text() == (
        first.folder / "logs/plain.log"
    ).read_text()


def test_record_that_runs_or_was_edited_is_refused(record: Path, tmp_path: Path) -> None:
    (record / "facts" / "list.json").write_text("[]")
    with pytest.raises(KeyelabError, match=r"found facts/list.json: content changed"):
        share(record, tmp_path)
    run = records.load(record)
    run.status = "running"
    records.save(run, record)
    with pytest.raises(KeyelabError, match="found it running"):
        share(record, tmp_path)
    assert list(tmp_path.glob("2*")) == []


def test_pictures_of_the_video_can_be_left_out(record: Path, tmp_path: Path) -> None:
    (record / "plots" / "07_video_test-frames.png").write_bytes(png())
    (record / "logs" / "07_video_test-ask.json").write_text(
        json.dumps({"url": "data:image/jpeg;base64,/9j/4AAQSkZJRgABAQ=="})
    )
    book = json.loads((record / NOTEBOOK).read_text())
    (record / "07_video_test.ipynb").write_text(json.dumps(book))
    seal.seal(records.load(record), record, [record / LOG])
    with_them = share(record, tmp_path / "1")
    assert (with_them.folder / "plots" / "07_video_test-frames.png").exists()
    without = share(record, tmp_path / "2", pictures=False)
    assert without.left_out["plots/07_video_test-frames.png"] == "a picture of the video"
    assert (without.folder / "plots" / "a.png").exists(), "plots are no pictures of the video"
    asked = json.loads((without.folder / "logs" / "07_video_test-ask.json").read_text())
    assert asked == {"url": "[picture left out]"}
    for name in ("07_video_test.ipynb", "07_video_test.html"):
        before, after = (
            (shared.folder / name).read_text().count("iVBORw0KGgo")
            for shared in (with_them, without)
        )
        assert before - after == 2, "the notebook's pictures; one is in Jupyter's own styles"
        assert "[picture left out]" in (without.folder / name).read_text()


def test_picture_keeps_its_pixels_and_nothing_else(record: Path, tmp_path: Path) -> None:
    shared = share(record, tmp_path)
    old = cv2.imread(str(record / "plots" / "a.png"), cv2.IMREAD_UNCHANGED)
    new = cv2.imread(str(shared.folder / "plots" / "a.png"), cv2.IMREAD_UNCHANGED)
    assert np.array_equal(old, new)
    content = (shared.folder / "plots" / "a.png").read_bytes()
    assert not re.search(rb"tEXt|zTXt|iTXt|eXIf|prVt", content)
    assert content.endswith(b"IEND\xaeB`\x82")


def test_output_is_a_new_zip_outside_of_the_record(record: Path, tmp_path: Path) -> None:
    for wrong in (tmp_path / "x.tar", tmp_path, record / "x.zip"):
        refused = invoke(record, "-o", wrong)
        assert isinstance(refused.exception, UsageError), wrong
    output = tmp_path / "x.zip"
    output.write_text("mine")
    assert "found one" in str(invoke(record, "-o", output).exception)
    assert output.read_text() == "mine"
    assert invoke(record, "-o", output, "--force").exit_code == 0
    assert output.read_bytes().startswith(b"PK")


def test_folder_that_cannot_be_written_is_one_sentence(record: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    refused = invoke(record, "-o", tmp_path / "file" / "x.zip")
    assert isinstance(refused.exception, KeyelabError)
    assert "expected to write" in refused.exception.message
