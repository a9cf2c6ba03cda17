"""The catalogue is sound: every entry recognizes its own failure, however the line is wrapped."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from keyelab.diagnose import diagnose
from keyelab.diagnose.entry import Catalogue, Entry, Phase, catalogue
from keyelab.diagnose.readme import troubleshooting
from keyelab.params import PARAMETERS

ENTRIES = catalogue().entries
README = Path(__file__).parents[3] / "README.md"
WRAPPED = {
    "as it is": "{}\n",
    "CRLF": "{}\r\n",
    "cut, without an end": "{}",
    "after progress": "  1% done\r 50% done\r{}\n",
    "colours": "\x1b[1m\x1b[0;31m{}\x1b[0m\x1b[K\n",
    "docker compose": "llama-server-1  | {}\n",
    "journald": "Nov 30 21:00:01 node7 llama-server[77]: {}\n",
    "ISO time": "2026-11-30T21:00:01.123456Z {}\n",
    "Kubernetes": "2026-11-30T21:00:01.123456789+00:00 stderr F {}\n",
    "a wrapper's pid": "[pid  4242] {}\n",
    "twice": "web_1 | 2026-11-30 21:00:01,123 {}\n",
}


@pytest.fixture(params=ENTRIES, ids=lambda entry: entry.id)
def entry(request: pytest.FixtureRequest) -> Entry:
    found: Entry = request.param
    return found


def found_in(log: bytes | str) -> list[str]:
    report = diagnose(log)
    return [finding.entry.id for finding in (*report.causes, *report.echoes)]


def test_there_are_at_least_eighty_over_all_phases() -> None:
    assert len(ENTRIES) >= 80
    counts = Counter(entry.phase for entry in ENTRIES)
    assert all(counts[phase] >= 5 for phase in get_args(Phase)), counts


@pytest.mark.parametrize("wrapped", WRAPPED.values(), ids=WRAPPED.keys())
def test_an_example_is_recognized_in_every_wrapping(entry: Entry, wrapped: str) -> None:
    assert found_in("all is well\n" + wrapped.format(entry.example)) == [entry.id]


def test_an_example_is_recognized_in_a_log_of_docker(entry: Entry) -> None:
    record = {"log": f"{entry.example}\n", "stream": "stderr", "time": "2026-11-30T21:00:01Z"}
    assert found_in(json.dumps(record, separators=(",", ":")) + "\n") == [entry.id]


def test_an_example_is_recognized_beside_broken_text(entry: Entry) -> None:
    line = entry.example.encode()
    assert found_in(b"\xe4\xbd\n\x00\xff\n" + line + b"\n\xe4\xbd\n\x80") == [entry.id]
    if not re.search(r"\^|\$", entry.pattern):
        assert found_in(b"\x00\xff " + line + b" \xe4\xbd") == [entry.id]


@given(st.binary(max_size=200), st.binary(max_size=200))
def test_any_bytes_around_a_line_hide_nothing(before: bytes, after: bytes) -> None:
    line = b"ld: undefined reference to `ggml_init'"
    assert "undefined-symbol" in found_in(before + b"\n" + line + b"\n" + after)


def test_a_colour_inside_the_text_hides_nothing() -> None:
    assert found_in("norm.o: undefined \x1b[1mreference\x1b[0m to `ggml_init'\n")


def test_every_text_can_be_found_by_the_scan(entry: Entry) -> None:
    # whatever the pattern says, the line must reach it
    for text in entry.text:
        assert any(text.lower() in line.lower() for line in (text, entry.example))
        assert len(text.encode()) >= 4


def test_an_example_fills_every_value_of_the_title(entry: Entry) -> None:
    finding = next(iter([*diagnose(entry.example).causes, *diagnose(entry.example).echoes]))
    for name in re.findall(r"\{(\w+)\}", entry.title):
        assert name in entry.names
        if name not in ("where", "kernel"):  # these stand below the line
            assert finding.values[name], name
    assert "{" not in finding.title


def test_named_values_exist(entry: Entry) -> None:
    used = set(re.findall(r"\{([a-z]\w*)\}", " ".join([entry.title, entry.cause])))
    assert used <= entry.names


@pytest.mark.parametrize("pattern", sorted({p for e in ENTRIES for p in (e.pattern, *e.values)}))
def test_no_pattern_repeats_a_repetition(pattern: str) -> None:
    assert not nested(parsed(pattern)), pattern


def parsed(pattern: str) -> Any:
    try:
        from re import _parser as parser  # type: ignore[attr-defined]
    except ImportError:  # Python 3.10
        import sre_parse as parser
    return parser.parse(pattern)


def nested(tree: Any, inside: bool = False) -> bool:
    """Whether an unbounded repetition stands inside another one."""
    for op, arguments in tree:
        name = str(op)
        if name in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
            _, most, content = arguments
            unbounded = str(most) == "MAXREPEAT"
            if (unbounded and inside) or nested(content, inside or unbounded):
                return True
        elif name == "SUBPATTERN":
            if nested(arguments[3], inside):
                return True
        elif name == "BRANCH" and any(nested(branch, inside) for branch in arguments[1]):
            return True
    return False


def test_the_test_for_repetitions_can_fail() -> None:
    assert nested(parsed(r"(?:a+)+"))
    assert nested(parsed(r"(\w+\s*)*x"))
    assert not nested(parsed(r"\w+\s*\d{1,3}"))


def test_keyelabs_own_parameters_in_a_remedy_exist(entry: Entry) -> None:
    for phase, key in re.findall(
        r"(?<!/)\b([a-z]+(?:_[a-z]+)?)\.([a-z_]+)\b", " ".join(entry.remedy)
    ):
        if phase in PARAMETERS:
            assert key in PARAMETERS[phase].model_fields, f"{phase}.{key}"


def test_no_remedy_offers_what_hides_the_fault(entry: Entry) -> None:
    assert "nogpulib" not in " ".join([*entry.remedy, entry.cause])


def test_severe_entries_say_what_to_type(entry: Entry) -> None:
    assert all(step.strip() == step and step for step in entry.remedy)
    assert entry.cause.endswith((".", ")."))


BROKEN = {
    "an unknown key": {"colour": "red"},
    "a text too short to be found": {"text": ["abc"]},
    "no text": {"text": []},
    "no remedy": {"remedy": []},
    "an unknown severity": {"severity": "fatal"},
    "an unknown phase": {"phase": "lunch"},
    "what it explains is not there": {"explains": ["no-such-entry"]},
}


@pytest.mark.parametrize("change", BROKEN.values(), ids=BROKEN.keys())
def test_a_broken_entry_is_refused(change: dict[str, Any]) -> None:
    good = ENTRIES[0].model_dump(by_alias=True)
    entries = [{**good, "explains": []}]
    Catalogue.model_validate({"common": "", "harmless": [], "entries": entries})
    with pytest.raises(ValidationError):
        Catalogue.model_validate(
            {"common": "", "harmless": [], "entries": [{**good, "explains": [], **change}]}
        )


def test_an_id_used_twice_is_refused() -> None:
    good = {**ENTRIES[0].model_dump(by_alias=True), "explains": []}
    with pytest.raises(ValidationError, match="used twice"):
        Catalogue.model_validate({"common": "", "harmless": [], "entries": [good, good]})


def test_a_symptom_of_the_readme_is_one_of_its_example() -> None:
    rows = [entry for entry in ENTRIES if entry.readme]
    assert len(rows) >= 15
    for entry in rows:
        assert entry.readme in entry.example or entry.readme in " ".join(entry.text), entry.id


def test_the_readmes_table_is_the_catalogues() -> None:
    assert troubleshooting() in README.read_text(encoding="utf-8")
