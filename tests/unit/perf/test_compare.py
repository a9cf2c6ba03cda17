"""Two runs held against each other: refusals, differences, effects with their intervals."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from keyelab.commands.perf import perf
from keyelab.errors import KeyelabError, UsageError
from keyelab.perf.compare import bootstrap, compare, effects


def rows(*ms: float, context: int = 512) -> list[dict[str, Any]]:
    return [
        {"way": "http", "context_tokens": context, "ms_per_token": one, "prefill_tps": None}
        for one in ms
    ]


def run(folder: Path, sweep: list[dict[str, Any]], attention: str = "on", **over: Any) -> Path:
    """A run folder with what a comparison reads."""
    known = {"model": "aa", "mmproj": "bb", "key": "cc", "prompt": "dd", **over}
    facts = {
        "model_fetch": {"model": {"sha256": known["model"]}, "mmproj": {"sha256": known["mmproj"]}},
        "build": {"key": known["key"]},
        "perf_analysis": {"sweep": sweep, "load": [], "sweep_prompt": known["prompt"]},
    }
    (folder / "facts").mkdir(parents=True)
    for phase, content in facts.items():
        (folder / "facts" / f"{phase}.json").write_text(json.dumps({"facts": content}))
    parameters = {
        "flash_attention": {"value": attention, "source": "override"},
        "run_dir": {"value": str(folder), "source": "this run"},
    }
    phases = [{"phase": "serve", "parameters": parameters}, {"phase": "build", "parameters": None}]
    (folder / "run.json").write_text(json.dumps({"phases": phases}))
    return folder


def test_what_differs_and_what_it_did(tmp_path: Path) -> None:
    a = run(tmp_path / "a", rows(10, 11, 10, 10, 12))
    b = run(tmp_path / "b", rows(20, 21, 22, 20, 19), attention="off")
    told = compare([a], [b])
    assert told["parameters"] == [{"parameter": "serve.flash_attention", "a": "on", "b": "off"}]
    (effect,) = told["effects"]
    assert (effect["place"], effect["measure"]) == ("http, context 512", "ms_per_token")
    assert effect["ratio"] == pytest.approx(2.0)
    assert 1.5 < effect["low"] < 2.0 < effect["high"] < 2.3
    assert effect["verdict"] == "b is worse"


@pytest.mark.parametrize(
    ("a", "b", "verdict"),
    [
        ((10, 11, 12), (10, 11, 12), "no difference that is seen"),
        ((10, 11, 12), (5, 5.5, 6), "b is better"),
        ((10, 11), (5, 5), "unknown: fewer than 3 repetitions"),
    ],
)
def test_verdicts(a: tuple[float, ...], b: tuple[float, ...], verdict: str) -> None:
    (effect,) = effects([rows(*a)], [rows(*b)])
    assert effect["verdict"] == verdict


def test_more_tokens_a_second_are_better() -> None:
    slow = [{"way": "http", "context_tokens": 0, "prefill_tps": tps} for tps in (10, 11, 12)]
    fast = [{**row, "prefill_tps": 3 * row["prefill_tps"]} for row in slow]
    assert [row["verdict"] for row in effects([slow], [fast])] == ["b is better"]


def test_requests_under_load_are_compared_by_kind_and_clients() -> None:
    load = [
        {"kind": "video", "level": 2, "ttft_s": s, "token_ms": None, "total_s": None}
        for s in (1.0, 1.1, 1.2)
    ]
    (effect,) = effects([load], [load])
    assert effect["place"] == "video, 2 at once"
    assert effects([load], [rows(1, 2, 3)]) == []


def test_the_interval_is_the_same_every_time_and_wider_for_scattered_values() -> None:
    steady, scattered = [10.0, 10.1, 9.9, 10.0, 10.2], [5.0, 10.0, 20.0, 8.0, 14.0]
    assert bootstrap([steady], [scattered]) == bootstrap([steady], [scattered])
    _, low, high = bootstrap([steady], [steady])
    _, wide_low, wide_high = bootstrap([steady], [scattered])
    assert None not in (low, high, wide_low, wide_high)
    assert (wide_high or 0) - (wide_low or 0) > 5 * ((high or 0) - (low or 0))


@pytest.mark.parametrize(
    ("over", "name"),
    [({"model": "xx"}, "model"), ({"mmproj": "xx"}, "projector"), ({"key": "xx"}, "build"),
     ({"prompt": "xx"}, "prompt")],
)  # fmt: skip
def test_what_must_be_equal_is_refused_unless_allowed(
    tmp_path: Path, over: dict[str, str], name: str
) -> None:
    a, b = run(tmp_path / "a", rows(1, 2, 3)), run(tmp_path / "b", rows(1, 2, 3), **over)
    with pytest.raises(KeyelabError, match=f"found another {name}") as caught:
        compare([a], [b])
    assert f"--allow {name}" in caught.value.hint
    assert compare([a], [b], [name])["allowed"] == [name]


def test_runs_without_a_sweep_or_without_a_phase_are_refused(tmp_path: Path) -> None:
    a, empty = run(tmp_path / "a", rows(1, 2, 3)), run(tmp_path / "e", [])
    with pytest.raises(KeyelabError, match="expected a sweep") as caught:
        compare([a], [empty])
    assert "perf_analysis.sweep=true" in caught.value.hint
    with pytest.raises(KeyelabError, match="expected the facts of model_fetch"):
        compare([a], [tmp_path / "none"])
    with pytest.raises(UsageError, match="expected one of model, projector, build, prompt"):
        compare([a], [a], ["weather"])


def command(*args: str) -> Result:
    return CliRunner().invoke(perf, args, catch_exceptions=False)


def test_the_command_prints_lines_and_strict_json(tmp_path: Path) -> None:
    a = run(tmp_path / "a", rows(10, 11, 12))
    b = run(tmp_path / "b", rows(5, 6, 5), attention="off", key="xx")
    words = ["--compare", str(a), str(b), "--allow", "build"]
    told = command(*words).output
    assert "another build, as allowed" in told
    assert "serve.flash_attention: 'on' -> 'off'" in told
    assert "b is better" in told
    assert json.loads(command(*words, "--json").output)["schema"] == 1
    alike = command("--compare", str(a), str(a)).output
    assert "no parameter differs" in alike


def test_a_comparison_and_a_log_are_two_commands(tmp_path: Path) -> None:
    a = run(tmp_path / "a", rows(1, 2, 3))
    with pytest.raises(UsageError, match="without a log"):
        command("server.log", "--compare", str(a), str(a))
    with pytest.raises(UsageError, match="expected a log file, found none"):
        command()
    with pytest.raises(UsageError, match="expected a run folder on each side"):
        command("--compare", str(a), ",")


def test_several_runs_a_side_hold_the_luck_of_each(tmp_path: Path) -> None:
    quick, slow = rows(10, 10.1, 10.2), rows(14, 14.1, 14.2)
    (one,) = effects([quick], [slow])
    assert one["verdict"] == "b is worse"
    (many,) = effects([quick, slow, quick], [slow, quick, slow])
    assert many["verdict"] == "no difference that is seen"
    folders = [run(tmp_path / str(n), part) for n, part in enumerate((quick, slow, quick))]
    told = command("--compare", ",".join(map(str, folders)), str(folders[1])).output
    assert told.count("a  ") >= 3
    assert "n = 9 and 3" in told
    other = run(tmp_path / "other", quick, attention="off")
    with pytest.raises(KeyelabError, match=r"same parameters, found .*flash_attention"):
        compare([folders[0], other], [folders[1]])
