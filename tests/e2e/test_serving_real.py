"""A real llama-server with the packaged demo model: started, proven, adopted, stopped."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from keyelab import params
from keyelab.build.result import parse_version
from keyelab.errors import KeyelabError
from keyelab.facts import BuildFacts, FileFact, ModelFacts
from keyelab.files import project_root, sha256_file
from keyelab.serving import attest, command, lifecycle, port, process, state
from keyelab.serving.command import ServerPlan
from keyelab.serving.lifecycle import Place

pytestmark = pytest.mark.e2e
DEMO = project_root() / "keyelab" / "models" / "demo"


def file_fact(path: Path) -> FileFact:
    return FileFact(path=str(path), sha256=sha256_file(path), size_bytes=path.stat().st_size)


def is_program(path: Path) -> bool:
    """Whether it is a compiled program, and not the smoke target's stand-in."""
    return path.is_file() and path.read_bytes()[:4] == b"\x7fELF"


@pytest.fixture(scope="module")
def build() -> BuildFacts:
    """The build that KEYELAB_BIN names, else the newest finished one below work/builds/."""
    named = os.environ.get("KEYELAB_BIN")
    marks = (project_root() / "work" / "builds").glob("*/result.json")
    newest = [path.parent / "bin" for path in sorted(marks, key=lambda path: path.stat().st_mtime)]
    folders = [Path(named)] if named else newest[::-1]
    server = next((f / "llama-server" for f in folders if is_program(f / "llama-server")), None)
    if server is None:
        pytest.fail(
            "these tests need a built llama-server: keyelab run --to build, "
            "or set KEYELAB_BIN to its bin folder"
        )
    said = subprocess.run([server, "--version"], capture_output=True, text=True, check=True)
    version = parse_version(said.stdout + said.stderr)
    assert version
    return BuildFacts(
        build_dir=str(server.parent.parent),
        key="0" * 64,
        reused=True,
        backend="cpu",
        gpu_targets="",
        build_type="Release",
        version=version,
        backends=["CPU"],
        command="",
        binaries={"llama-server": file_fact(server)},
    )


@pytest.fixture
def model() -> ModelFacts:
    return ModelFacts(
        model=file_fact(DEMO / "keyelab-tiny-f16.gguf"),
        mmproj=file_fact(DEMO / "mmproj-keyelab-tiny-f16.gguf"),
        source="packaged",
        architecture="qwen3vlmoe",
        projector="qwen3vl_merger",
        parameters=657984,
        quantization="F16",
        context_tokens=4096,
        embedding_width=128,
        chat_template=True,
    )


@pytest.fixture
def make_plan(build: BuildFacts, model: ModelFacts) -> Callable[..., ServerPlan]:
    def make(facts: ModelFacts | None = None, **given: Any) -> ServerPlan:
        values = params.Serve(threads=1, **given)
        return command.make(values, build, facts or model, os.environ)

    return make


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    made = Place(tmp_path / "work", tmp_path / "run", tmp_path / "run" / "logs" / "server.log")
    yield made
    for left in state.all_states(made.workdir):
        process.stop(left)


def ensure(plan: ServerPlan, place: Place) -> state.ServerState:
    return lifecycle.ensure(plan, os.environ, place, 60, lambda *_: None)


def failure(plan: ServerPlan, place: Place, expected: str) -> KeyelabError:
    """Why the server did not start; in up to three tries, for b10019 may exit before it logs."""
    for _ in range(3):
        with pytest.raises(KeyelabError, match="while loading") as error:
            ensure(plan, place)
        if expected in error.value.message:
            break
    assert expected in error.value.message
    assert state.all_states(place.workdir) == []
    return error.value


def test_server_is_started_proven_and_answers(make_plan: Any, place: Place) -> None:
    plan = make_plan(alias="two words")
    server = ensure(plan, place)
    seen = attest.look(server)
    verdicts = {item.name: item.status for item in attest.checks(plan, server, seen)}
    assert set(verdicts.values()) == {"ok"}
    facts = attest.facts(plan, server, seen)
    assert facts.context_tokens == 4096
    assert facts.slots == 1
    question = {"model": "two words", "messages": [{"role": "user", "content": "Hello"}]}
    with requests.Session() as session:
        session.trust_env = False
        url = f"{facts.url}/v1/chat/completions"
        answer = session.post(url, json={**question, "max_tokens": 4}, timeout=60)
    assert answer.status_code == 200
    assert answer.json()["usage"]["completion_tokens"] >= 1


def test_log_holds_the_trace_lines_and_stop_leaves_nothing(make_plan: Any, place: Place) -> None:
    server = ensure(make_plan(), place)
    log = Path(server.log)
    assert "system_info" in log.read_text()
    assert process.stop(server) == "interrupted"
    assert port.is_free("127.0.0.1", server.port)
    assert not state.is_running(server)


def test_killed_owner_leaves_a_server_that_is_adopted(
    make_plan: Any, place: Place, tmp_path: Path
) -> None:
    plan = make_plan()
    owner = tmp_path / "owner.py"
    owner.write_text(
        "import os, pickle, signal\n"
        "from keyelab.serving import lifecycle\n"
        f"plan, place = pickle.loads({pickle.dumps((plan, place))!r})\n"
        "lifecycle.ensure(plan, os.environ, place, 60, lambda *_: None)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    assert subprocess.run([sys.executable, owner], check=False).returncode == -9
    (left,) = state.all_states(place.workdir)
    server = ensure(plan, place)
    assert server.pid == left.pid


def test_truncated_model_is_told_at_once(
    make_plan: Any, model: ModelFacts, place: Place, tmp_path: Path
) -> None:
    cut = tmp_path / "cut.gguf"
    cut.write_bytes((DEMO / "keyelab-tiny-f16.gguf").read_bytes()[:200_000])
    plan = make_plan(model.model_copy(update={"model": file_fact(cut)}))
    assert "model_fetch" in failure(plan, place, "not within the file bounds").hint


def test_model_in_the_projectors_place_is_told(
    make_plan: Any, model: ModelFacts, place: Place
) -> None:
    plan = make_plan(model.model_copy(update={"mmproj": model.model}))
    assert "mmproj_file" in failure(plan, place, "Failed to load CLIP model").hint


def test_port_of_another_program_is_refused_before_the_start(make_plan: Any, place: Place) -> None:
    first = ensure(make_plan(), place)
    elsewhere = Place(place.workdir / "other", place.run_dir, place.log)
    with pytest.raises(KeyelabError, match=rf"llama-server \(pid {first.pid}\)"):
        ensure(make_plan(port=first.port), elsewhere)
    assert state.all_states(elsewhere.workdir) == []
