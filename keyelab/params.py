"""The values of a phase's parameters, checked, and where each came from.

Precedence: default < params/<target>/common.yaml < params/<target>/<phase>.yaml
< override. Types are strict: a commit that looks like a number stays text or is refused.
"""

from __future__ import annotations

import datetime
import difflib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Generic, TypeVar

import yaml
from pydantic import ValidationError

from keyelab.errors import UsageError
from keyelab.files import project_root, shown
from keyelab.phases import PARAMETERS as PARAMETERS
from keyelab.phases import Build as Build
from keyelab.phases import Common as Common
from keyelab.phases import EnvCheck as EnvCheck
from keyelab.phases import HeaderFixes as HeaderFixes
from keyelab.phases import ModelFetch as ModelFetch
from keyelab.phases import PerfAnalysis as PerfAnalysis
from keyelab.phases import Serve as Serve
from keyelab.phases import SourcePatch as SourcePatch
from keyelab.phases import VideoTest as VideoTest

P = TypeVar("P", bound=Common)


class Resolved(Generic[P]):
    """Checked parameters of a phase and the source of each value."""

    def __init__(self, values: P, sources: dict[str, str]) -> None:
        self.values = values
        self.sources = sources

    def given(self) -> dict[str, Any]:
        """The values that are not defaults."""
        content = self.values.model_dump()
        return {name: content[name] for name, where in self.sources.items() if where != "default"}

    def as_record(self) -> dict[str, dict[str, Any]]:
        """{name: {value, source}} for run.json."""
        content = self.values.model_dump()
        return {k: {"value": v, "source": self.sources[k]} for k, v in content.items()}


def targets() -> list[str]:
    """Names of the targets under params/."""
    return sorted(path.name for path in (project_root() / "params").iterdir() if path.is_dir())


def phase_model(phase: str) -> type[Common]:
    """The parameter model of a phase; UsageError names a close phase."""
    if phase not in PARAMETERS:
        raise UsageError(
            f"expected a phase, found {phase!r}{_meant(phase, PARAMETERS)}",
            f"one of: {' '.join(PARAMETERS)}",
        )
    return PARAMETERS[phase]


def target_values(target: str, phase: str) -> dict[str, tuple[Any, str]]:
    """{name: (value, source)} that params/<target>/ gives for a phase.

    Raises UsageError for an unknown target, a file that is no mapping, an unknown key, or the
    name of another target.
    """
    model = phase_model(phase)
    if target not in targets():
        raise UsageError(
            f"expected a target under params/, found {target!r}{_meant(target, targets())}",
            f"one of: {' '.join(targets())}",
        )
    folder = project_root() / "params" / target
    values: dict[str, tuple[Any, str]] = {}
    for name, known in (("common", Common.model_fields), (phase, model.model_fields)):
        path = folder / f"{name}.yaml"
        for key, value in read_yaml(path).items():
            if key not in known:
                raise UsageError(
                    f"unknown key {key!r} in {shown(path)}{_meant(key, known)}",
                    f"known keys: {' '.join(known)}",
                )
            values[key] = (value, shown(path))
    named, where = values.get("target", (target, ""))
    if named != target:
        raise UsageError(
            f"expected target: {target} in {where}, found {named!r}",
            f"write target: {target} there",
        )
    return values


def read_yaml(path: Path) -> dict[str, Any]:
    """A YAML mapping; an absent file is an empty one."""
    if not path.exists():
        return {}
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, ValueError) as error:  # ValueError: not UTF-8, or an impossible date
        problem = " ".join(str(error).split())
        raise UsageError(f"expected YAML in {shown(path)}, found: {problem}") from None
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise UsageError(
            f"expected 'key: value' lines in {shown(path)}, found {type(content).__name__}"
        )
    return content


def resolve(
    phase: str, target: str, overrides: Mapping[str, Any], source: str = "override"
) -> Resolved[Any]:
    """The parameters of a phase for a target, checked; raises UsageError for the first bad one."""
    model = phase_model(phase)
    given = target_values(target, phase)
    for key, value in overrides.items():
        if key not in model.model_fields:
            raise UsageError(
                f"unknown parameter {phase}.{key}{_meant(key, model.model_fields)}",
                f"known: {' '.join(model.model_fields)}",
            )
        given[key] = (value, source)
    assumed = "default" if target == model.model_fields["target"].default else source
    given["target"] = (target, given.get("target", (None, assumed))[1])
    sources = {key: given[key][1] if key in given else "default" for key in model.model_fields}
    return Resolved(_validated(phase, model, given), sources)


def parse_override(text: str) -> tuple[str, str, Any]:
    """`phase.key=value` as (phase, key, value), the value read by the declared type.

    Text stays text ('12e4567' is a commit, never a number). Raises UsageError.
    """
    name, found, raw = text.partition("=")
    phase, dot, key = name.partition(".")
    if not found or not dot:
        raise UsageError(f"expected phase.key=value, found {text!r}", "example: --set build.jobs=2")
    field = phase_model(phase).model_fields.get(key)
    if field is None:
        known = PARAMETERS[phase].model_fields
        raise UsageError(
            f"unknown parameter {phase}.{key}{_meant(key, known)}", f"known: {' '.join(known)}"
        )
    if isinstance(field.default, str):
        return phase, key, raw
    try:
        value = yaml.safe_load(raw)
    except (yaml.YAMLError, ValueError):
        value = raw
    return phase, key, value


def _validated(phase: str, model: type[P], given: dict[str, tuple[Any, str]]) -> P:
    try:
        return model.model_validate({key: value for key, (value, _) in given.items()})
    except ValidationError as error:
        first = error.errors()[0]
        key = str(first["loc"][0])
        field = model.model_fields[key]
        found = first["input"]
        hint = f"set {phase}.{key}: {field.description}"
        wants_text = first["type"] in ("string_type", "literal_error")
        if wants_text and isinstance(found, int | float | datetime.date):
            # not what was read: YAML takes 0123456 for the octal number 42798
            hint = f'quote it: {key}: "…" in YAML, -r {key} … with papermill'
        elif first["type"] == "bool_type" and isinstance(found, str):
            hint = f"without quotes: {key}: true in YAML, -p {key} True with papermill"
        limit = first["msg"].removeprefix("Input should be") if "than" in first["type"] else ""
        raise UsageError(
            f"{phase}.{key}: expected {_type_name(field.annotation)}{limit}, "
            f"found {found!r} ({type(found).__name__}) from {given[key][1]}",
            hint,
        ) from None


def _type_name(annotation: Any) -> str:
    text = getattr(annotation, "__name__", str(annotation)) if annotation else "a value"
    if text.startswith(("typing.Literal", "Literal")):
        return "one of " + ", ".join(annotation.__args__)
    words = {"str": "text", "int": "a whole number", "float": "a number", "bool": "true or false"}
    return words.get(text, str(annotation))


def _meant(word: str, known: Any) -> str:
    close = difflib.get_close_matches(str(word), list(known), n=1)
    return f"; did you mean {close[0]!r}?" if close else ""
