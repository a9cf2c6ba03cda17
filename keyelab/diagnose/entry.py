"""An entry of the catalogue: how a failure shows, why it happens, how to mend it."""

from __future__ import annotations

import re
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Annotated, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

FILE = Path(__file__).parent / "catalogue.yaml"

Phase = Literal[
    "configure", "compile", "link", "runtime", "start", "request", "model", "video", "notebook"
]
Text = Annotated[str, StringConstraints(min_length=4)]  # the scan looks for four bytes of it


class Entry(BaseModel):
    """One known failure; catalogue.yaml says what each field means."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    id: Annotated[str, StringConstraints(pattern=r"^[a-z0-9]+(?:-[a-z0-9]+)*$")]
    phase: Phase
    title: str
    text: Annotated[list[Text], Field(min_length=1)]
    pattern: str = ""
    values: list[str] = []
    not_: Annotated[list[str], Field(alias="not")] = []
    cause: str
    remedy: Annotated[list[str], Field(min_length=1)]
    severity: Literal["error", "warning", "symptom"]
    explains: list[str] = []
    sources: Annotated[list[str], Field(min_length=1)]
    readme: str = ""
    example: str

    @cached_property
    def texts(self) -> list[str]:
        """`text` in lower case."""
        return [text.lower() for text in self.text]

    @cached_property
    def looks_alike(self) -> list[str]:
        """`not` in lower case."""
        return [text.lower() for text in self.not_]

    @cached_property
    def compiled(self) -> re.Pattern[str]:
        """`pattern`; matches everything where there is none."""
        return re.compile(self.pattern, re.IGNORECASE)

    @cached_property
    def value_patterns(self) -> list[re.Pattern[str]]:
        """`values`, compiled."""
        return [re.compile(value, re.IGNORECASE) for value in self.values]

    @cached_property
    def names(self) -> set[str]:
        """Names of the values that its text may hold in braces."""
        patterns = [self.compiled, *self.value_patterns]
        return {name for pattern in patterns for name in pattern.groupindex}

    def matches(self, line: str) -> re.Match[str] | None:
        """Whether a cleaned line is this failure."""
        low = line.lower()
        if not any(map(low.__contains__, self.texts)):
            return None
        if any(map(low.__contains__, self.looks_alike)):
            return None
        return self.compiled.search(line)


class Catalogue(BaseModel):
    """All entries in the order in which a line is offered to them."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    common: str
    harmless: list[str]
    entries: list[Entry]

    @model_validator(mode="after")
    def _consistent(self) -> Catalogue:
        ids = [entry.id for entry in self.entries]
        doubled = {name for name in ids if ids.count(name) > 1}
        unknown = {name for entry in self.entries for name in entry.explains} - set(ids)
        if doubled or unknown:
            raise ValueError(f"ids used twice: {sorted(doubled)}; unknown: {sorted(unknown)}")
        return self


@lru_cache(maxsize=1)
def catalogue() -> Catalogue:
    """The shipped catalogue; a broken one is a bug and raises pydantic's ValidationError."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    content = yaml.load(FILE.read_text(encoding="utf-8"), loader)
    return Catalogue.model_validate(content)
