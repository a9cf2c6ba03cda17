"""Rewrite rules as data: one concern a YAML file under patches/, checked strictly."""

from __future__ import annotations

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


class TextEdit(Data):
    """Replace `find` by `replace`, each whole text as it stands.

    `within` is a text that stands once in the file; only what follows it counts, up to the next
    line that begins with `}`.
    """

    file: str = ""
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


class After(Data):
    """A post-condition: `absent` is a regular expression that the file must not hold."""

    name: str
    file: str
    absent: str


def _edit_kind(value: Any) -> str:
    return "syntax" if isinstance(value, dict) and "rule" in value else "text"


Edit = Annotated[
    Annotated[TextEdit, Tag("text")] | Annotated[SyntaxEdit, Tag("syntax")],
    Discriminator(_edit_kind),
]


class Rule(Data):
    """One concern: the files it touches (relative to the tree), its edits, what must hold after."""

    id: str
    title: str
    why: Why
    applies_to: list[str]
    edits: list[Edit]
    after: list[After] = []

    @model_validator(mode="after")
    def _files_are_named(self) -> Rule:
        for part in (*self.edits, *self.after):
            if not part.file and len(self.applies_to) != 1:
                raise ValueError("with several files each edit names its file")
            if part.file and part.file not in self.applies_to:
                raise ValueError(f"{part.file} is not in applies_to")
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
