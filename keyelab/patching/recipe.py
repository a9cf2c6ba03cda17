"""Recipes: named series of rules, from patches/recipes.yaml."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from keyelab.errors import KeyelabError, UsageError
from keyelab.files import project_root, shown
from keyelab.params import read_yaml
from keyelab.patching.rule import Rule, load_rule


class Recipe(BaseModel):
    """What a series is for and what it asks of the later phases.

    `block_limit` is the most threads a block may have; `weights` are the tensor types that it
    makes right; `flash_attention` is how 06_serve has to start the server.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    title: str
    why: str
    block_limit: int
    weights: list[str]
    flash_attention: Literal["on", "off"]
    rules: list[str]


@dataclass(frozen=True)
class Series:
    """A recipe with its rules, in the order in which they are applied."""

    name: str
    recipe: Recipe | None
    rules: tuple[Rule, ...]


def load_series(name: str, folder: Path | None = None) -> Series:
    """The recipe `name` and its rules; the empty name is the empty series.

    Raises UsageError for an unknown recipe, KeyelabError for a broken file.
    """
    if not name:
        return Series("", None, ())
    folder = folder or project_root() / "patches"
    path = folder / "recipes.yaml"
    known = read_yaml(path)
    if name not in known:
        close = difflib.get_close_matches(name, known, n=1)
        meant = f"; did you mean {close[0]!r}?" if close else ""
        raise UsageError(
            f"expected a recipe of {shown(path)}, found {name!r}{meant}",
            f"one of: {' '.join(known)}",
        )
    try:
        recipe = Recipe.model_validate(known[name])
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in (name, *first["loc"]))
        raise KeyelabError(
            f"{shown(path)}: {where}: {first['msg']}", "the format: patches/README.md"
        ) from None
    rules = (load_rule(folder / "llama.cpp" / f"{rule}.yaml") for rule in recipe.rules)
    return Series(name, recipe, tuple(rules))


def header_rules(folder: Path | None = None) -> tuple[Rule, ...]:
    """The rules for toolkit headers, by file name."""
    folder = folder or project_root() / "patches"
    return tuple(load_rule(path) for path in sorted((folder / "headers").glob("*.yaml")))
