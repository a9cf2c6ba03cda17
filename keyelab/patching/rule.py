"""Rewrite rules as data: one concern a YAML file under patches/, checked strictly."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Discriminator, Tag, ValidationError, model_validator

from keyelab.errors import KeyelabError
from keyelab.files import shown
from keyelab.params import read_yaml


class Data(BaseModel):
    """Something read from patches/: an unknown key is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Expect(Data):
    """How many places an edit changes; a plain number is exact. `min: 0` may find nothing to do."""

    min: int
    max: int

    @model_validator(mode="before")
    @classmethod
    def _exact(cls, value: Any) -> Any:
        return {"min": value, "max": value} if isinstance(value, int) else value

    def holds(self, count: int) -> bool:
        """True when `count` places are as many as expected."""
        return self.min <= count <= self.max

    def __str__(self) -> str:
        return str(self.min) if self.min == self.max else f"{self.min} to {self.max}"


ONCE = Expect(min=1, max=1)


class Probe(Data):
    """A look at a file: a regular expression that has to be `present` in it, or `absent`."""

    file: str = ""
    present: str = ""
    absent: str = ""

    @model_validator(mode="after")
    def _asks_one_thing(self) -> Probe:
        if bool(self.present) == bool(self.absent):
            raise ValueError("expected one of present and absent")
        for pattern in (self.present, self.absent):
            try:
                re.compile(pattern)
            except re.error as error:
                raise ValueError(f"{pattern!r} is no regular expression: {error}") from None
        return self

    def holds(self, text: str) -> bool:
        """True when `text` (a file that is not there: '') is as it has to be."""
        pattern = self.present or self.absent
        found = re.search(pattern, text.replace("\r\n", "\n"), re.MULTILINE)
        return bool(found) == bool(self.present)


class StillNeeded(Probe):
    """Holds where a rule is needed; `otherwise` says why the other trees need it no more."""

    otherwise: str


class After(Probe):
    """A post-condition; its file is a glob, `**/*` the whole tree.

    No file may hold what is `absent`, one has to hold what is `present`. With `when` it is
    promised only where that holds.
    """

    name: str
    when: Probe | None = None


class TextEdit(Data):
    """Replace `find` by `replace`, each whole text as it stands.

    `within` is a text that stands once in the file; only what follows it counts, up to the next
    line that begins with `}`. `when` tells the upstream versions apart by what they hold: where it
    does not hold, the edit is left out.
    """

    file: str = ""
    when: Probe | None = None
    find: str
    replace: str
    within: str = ""
    expect: Expect = ONCE


class Done(Data):
    """How a finished syntax edit looks: an ast-grep rule and its number of matches."""

    rule: dict[str, Any]
    expect: Expect


class SyntaxEdit(Data):
    """Replace each node that an ast-grep rule finds by `fix`; $NAME in it is a captured node."""

    file: str = ""
    when: Probe | None = None
    rule: dict[str, Any]
    fix: str
    done: Done
    expect: Expect = ONCE


class Why(Data):
    """What goes wrong without the rule, what makes it so, and how that is known."""

    symptom: str
    cause: str
    evidence: str
    article: str = ""
    upstream: list[str] = []


def _edit_kind(value: Any) -> str:
    return "syntax" if isinstance(value, dict) and "rule" in value else "text"


Edit = Annotated[
    Annotated[TextEdit, Tag("text")] | Annotated[SyntaxEdit, Tag("syntax")],
    Discriminator(_edit_kind),
]


class Rule(Data):
    """One concern: the files it touches (relative to the tree), its edits, what must hold after.

    `verify` are the operations to test with test-backend-ops.
    """

    id: str
    title: str
    why: Why
    verify: list[str] = []
    still_needed: StillNeeded | None = None
    applies_to: list[str]
    edits: list[Edit]
    after: list[After] = []

    @model_validator(mode="after")
    def _files_are_named(self) -> Rule:
        for part in self.edits:
            if not part.file and len(self.applies_to) != 1:
                raise ValueError("with several files each edit names its file")
            if part.file and part.file not in self.applies_to:
                raise ValueError(f"{part.file} is not in applies_to")
        for probe in (*self.after, *([self.still_needed] if self.still_needed else [])):
            if not probe.file:
                raise ValueError("a post-condition and still_needed name their file")
        return self

    def file_of(self, edit: TextEdit | SyntaxEdit) -> str:
        """The file that an edit changes, relative to the tree."""
        return edit.file or self.applies_to[0]


D = TypeVar("D", bound=Data)


def checked(model: type[D], values: Mapping[str, Any], where: str) -> D:
    """`values` as a model; a KeyelabError names the first wrong key or value and `where` it is."""
    try:
        return model.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"])) or "the whole"
        message = f"{where}: {place}: {first['msg']}"
        raise KeyelabError(message, "the format: patches/README.md") from None


def load_rule(path: Path) -> Rule:
    """Read one rule file, named <id>.yaml."""
    if not path.exists():
        raise KeyelabError(
            f"expected a rule file at {shown(path)}, found none",
            f"the rules that exist: ls {shown(path.parent)}",
        )
    rule = checked(Rule, read_yaml(path), shown(path))
    if rule.id != path.stem:
        raise KeyelabError(f"{shown(path)}: id: expected {path.stem!r}, found {rule.id!r}")
    return rule
