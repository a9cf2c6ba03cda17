"""Rewrite rules as data: one concern a YAML file under patches/, checked strictly."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import (
    BaseModel,
    ConfigDict,
    Discriminator,
    Tag,
    ValidationError,
    field_validator,
    model_validator,
)

from keyelab.errors import KeyelabError
from keyelab.files import shown


class _Data(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Expect(_Data):
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


class TextEdit(_Data):
    """Replace `find` by `replace`, each whole text as it stands.

    `within` is a text that stands once in the file; only what follows it counts, up to the next
    line that begins with `}`.
    """

    file: str = ""
    find: str
    replace: str
    within: str = ""
    expect: Expect = ONCE


class Done(_Data):
    """How a finished syntax edit looks: an ast-grep rule and its number of matches."""

    rule: dict[str, Any]
    expect: Expect


class SyntaxEdit(_Data):
    """Replace each node that an ast-grep rule finds by `fix`; $NAME in it is a captured node."""

    file: str = ""
    rule: dict[str, Any]
    fix: str
    done: Done
    expect: Expect = ONCE


class Why(_Data):
    """What goes wrong without the rule, what makes it so, and how that is known."""

    symptom: str
    cause: str
    evidence: str
    article: str = ""
    upstream: list[str] = []


class After(_Data):
    """A post-condition: `absent` is a regular expression that the file must not hold."""

    name: str
    file: str
    absent: str


def _edit_kind(value: Any) -> str:
    return "syntax" if "rule" in (value if isinstance(value, dict) else value.__dict__) else "text"


Edit = Annotated[
    Annotated[TextEdit, Tag("text")] | Annotated[SyntaxEdit, Tag("syntax")],
    Discriminator(_edit_kind),
]


class Rule(_Data):
    """One concern: the files it touches (relative to the tree), its edits, what must hold after."""

    id: str
    title: str
    why: Why
    applies_to: list[str]
    edits: list[Edit]
    after: list[After] = []

    @field_validator("id")
    @classmethod
    def _plain_name(cls, value: str) -> str:
        if not re.fullmatch(r"[a-z0-9-]+", value):
            raise ValueError("an id is small letters, digits and hyphens")
        return value

    @model_validator(mode="after")
    def _files_are_named(self) -> Rule:
        for edit in self.edits:
            if not edit.file and len(self.applies_to) != 1:
                raise ValueError("with several files each edit names its file")
        for part in (*self.edits, *self.after):
            if part.file and part.file not in self.applies_to:
                raise ValueError(f"{part.file} is not in applies_to")
        return self

    def file_of(self, edit: TextEdit | SyntaxEdit) -> str:
        """The file that an edit changes, relative to the tree."""
        return edit.file or self.applies_to[0]


def load_rule(path: Path) -> Rule:
    """Read one rule file; a KeyelabError names the first wrong key or value."""
    if not path.exists():
        raise KeyelabError(
            f"expected a rule file at {shown(path)}, found none",
            f"the rules that exist: ls {shown(path.parent)}",
        )
    try:
        rule = Rule.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")))
    except yaml.YAMLError as error:
        raise KeyelabError(
            f"expected YAML in {shown(path)}, found: {' '.join(str(error).split())}"
        ) from None
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "the rule"
        raise KeyelabError(
            f"{shown(path)}: {where}: {first['msg']}", "the format: patches/README.md"
        ) from None
    if rule.id != path.stem:
        raise KeyelabError(f"{shown(path)}: id: expected {path.stem!r}, found {rule.id!r}")
    return rule
