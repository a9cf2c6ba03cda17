"""Recipes: named series of rules, from patches/recipes.yaml."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from keyelab.errors import UsageError
from keyelab.files import project_root, shown
from keyelab.params import read_yaml
from keyelab.patching.rule import Data, Rule, checked, load_rule


def patches() -> Path:
    """The folder of the rules."""
    return project_root() / "patches"


def _named(name: str) -> Rule:
    return load_rule(patches() / "llama.cpp" / f"{name}.yaml")


class Recipe(Data):
    """What a series is for, what it asks of the later phases, and its rules in their order.

    `block_limit` is the most threads a block may have; `weights` are the tensor types that it
    makes right (any: all); `flash_attention` is how 06_serve has to start the server; `cmake` are
    cache entries of a HIP build; `needs` are the ProbeFacts that have to be true. A recipe with
    `choose` has nothing of that: it stands for the first of those that the host can take.
    """

    title: str
    why: str
    block_limit: int = 1024
    weights: list[str] = Field(default_factory=lambda: ["any"])
    flash_attention: Literal["auto", "on", "off"] = "auto"
    cmake: dict[str, str] = Field(default_factory=dict)
    needs: list[str] = Field(default_factory=list)
    choose: list[str] = Field(default_factory=list)
    rules: list[Annotated[Rule, BeforeValidator(_named)]] = Field(default_factory=list)

    @model_validator(mode="after")
    def _is_whole(self) -> Recipe:
        given = self.model_fields_set - {"title", "why"}
        if self.choose and given != {"choose"}:
            raise ValueError("a recipe with choose takes everything else from the chosen one")
        missing = {"block_limit", "weights", "flash_attention", "rules"} - given
        if not self.choose and missing:
            raise ValueError(f"expected choose, or {' '.join(sorted(missing))} as well")
        return self

    @property
    def gate(self) -> list[str]:
        """The operations that its rules touch, for test-backend-ops."""
        return sorted({op for rule in self.rules for op in rule.verify})

    def asks(self) -> dict[str, Any]:
        """What it asks of the later phases, by the names of SourceFacts."""
        named = {"cmake", "weights", "flash_attention"}
        return {**self.model_dump(include=named), "gate": self.gate}

    def __str__(self) -> str:
        """The recipe in markdown."""
        if self.choose:
            return f"**{self.title}.** {self.why.strip()}\n\nOne of: {', '.join(self.choose)}."
        return (
            f"**{self.title}.** {self.why.strip()}\n\n"
            f"Weights: {', '.join(self.weights)}. Flash attention: {self.flash_attention}. "
            f"Most threads a block: {self.block_limit:,}."
            + "".join(f" CMake: `-D{name}={value}`." for name, value in self.cmake.items())
        )


def load_recipe(name: str) -> Recipe:
    """The recipe `name`; the empty name is the recipe `none`, without rules.

    Raises UsageError for an unknown recipe, KeyelabError for a broken file.
    """
    name = name or "none"
    path = patches() / "recipes.yaml"
    known = read_yaml(path)
    if name not in known:
        close = difflib.get_close_matches(name, known, n=1)
        meant = f"; did you mean {close[0]!r}?" if close else ""
        raise UsageError(
            f"expected a recipe of {shown(path)}, found {name!r}{meant}",
            f"one of: {' '.join(known)}",
        )
    return checked(Recipe, known[name], f"{shown(path)}: {name}")


def header_rules() -> list[Rule]:
    """The rules for toolkit headers, by file name."""
    return [load_rule(path) for path in sorted((patches() / "headers").glob("*.yaml"))]
