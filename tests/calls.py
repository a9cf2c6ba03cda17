"""Calls of programs in shell text and in documents, held against the commands themselves."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable
from pathlib import Path

import click


def calls(program: str, texts: Iterable[str]) -> list[list[str]]:
    """The words after each call of a program; `[WHAT may stand here]` is one word, WHAT."""
    found = []
    for part in re.split(r"\n|;|&&", "\n".join(texts).replace("\\\n", " ")):
        if Path((part.split() or [""])[0]).name == program:
            found.append(shlex.split(re.sub(r"\[(\w+)[^\]]*\]", r"\1", part), comments=True)[1:])
    return found


def refusal(command: click.Command, words: list[str]) -> str:
    """Why click would not take the words, '' when it would; A|B stands for either.

    What is required and not given is no reason: a document may only name a command.
    """
    if isinstance(command, click.Group):
        names = words[0].split("|") if words else []
        for name in names:
            if name not in command.commands:
                return f"no command {name}"
        return next(filter(None, (refusal(command.commands[n], words[1:]) for n in names)), "")
    try:
        values, surplus, _ = command.make_parser(click.Context(command)).parse_args([*words])
    except click.UsageError as error:
        return error.format_message()
    for item in command.params:
        if isinstance(item.type, click.Choice) and isinstance(value := values.get(item.name), str):
            surplus += set(value.split("|")) - {str(choice) for choice in item.type.choices}
    return f"not taken: {' '.join(surplus)}" if surplus else ""
