"""Recipes: named series of rules, from patches/recipes.yaml."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BeforeValidator

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
    makes right; `flash_attention` is how 06_serve has to start the server.
    """

    title: str
    why: str
    block_limit: int
    weights: list[str]
    flash_attention: Literal["auto", "on", "off"]
    rules: list[Annotated[Rule, BeforeValidator(_named)]]

    def __str__(self) -> str:
        """The recipe in markdown."""
        return (
            f"**{self.title}.** {self.why.strip()}\n\n"
            f"Weights: {', '.join(self.weights)}. Flash attention: {self.flash_attention}. "
            f"Most threads a block: {self.block_limit:,}."
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
