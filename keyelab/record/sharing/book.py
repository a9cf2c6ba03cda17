"""Executed notebooks with aliases: their parameters, outputs and metadata.

Cells that are the repository's own stay as they are, or the copy could not be verified against it.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

from keyelab.record.sharing.picture import clean_png
from keyelab.record.sharing.scrub import LEFT_OUT, Scrubber, decoded

Book = dict[str, Any]


def scrub_book(book: Book, scrubber: Scrubber, own: set[tuple[str, str]], pictures: bool) -> Book:
    """A notebook with aliases; `own` are (id, source) of the cells to keep."""
    new = {
        key: value if key == "cells" else scrubber.json(value, pictures=pictures)
        for key, value in book.items()
    }
    before, after = _injected(book), _injected(new)
    cells = [_cell(cell, scrubber, own, pictures) for cell in book["cells"]]
    for old, cell in zip(book["cells"], cells, strict=True):
        if before and source(old) == before:  # the same aliases as in the metadata
            cell["source"] = after
    return {**new, "cells": cells}


def _injected(book: Book) -> str:
    """The source of the cell in which papermill puts the parameters; '' when there are none."""
    from papermill.translators import PythonTranslator

    given = book.get("metadata", {}).get("papermill", {}).get("parameters")
    return str(PythonTranslator.codify(given, "Parameters")) if given else ""


def source(cell: Book) -> str:
    """The source of a cell, which files hold as text or as its lines."""
    text = cell["source"]
    return text if isinstance(text, str) else "".join(text)


def _cell(cell: Book, scrubber: Scrubber, own: set[tuple[str, str]], pictures: bool) -> Book:
    kept = (cell.get("id", ""), source(cell)) in own
    new: Book = {}
    for key, value in cell.items():
        if kept and key in ("id", "source"):
            new[key] = value
        elif key == "source":
            new[key] = _lines(value, lambda text: scrubber.text(text, "", pictures))
        elif key == "outputs":
            new[key] = [_output(output, scrubber, pictures) for output in value]
        elif key == "attachments":
            new[key] = {
                scrubber.text(name): _bundle(bundle, scrubber, pictures)
                for name, bundle in value.items()
            }
        else:
            new[key] = scrubber.json(value, pictures=pictures)
    return new


def _output(output: Book, scrubber: Scrubber, pictures: bool) -> Book:
    new: Book = {}
    for key, value in output.items():
        if key == "data":
            new[key] = _bundle(value, scrubber, pictures)
        elif key == "text":
            new[key] = _lines(value, lambda text: scrubber.text(text, "", pictures))
        elif key == "traceback":
            new[key] = scrubber.text("\n".join(value), "", pictures).split("\n")
        else:
            new[key] = scrubber.json(value, pictures=pictures)
    return new


def _bundle(bundle: Book, scrubber: Scrubber, pictures: bool) -> Book:
    new: Book = {}
    left_out = False
    for kind, value in bundle.items():
        if kind.startswith("text/") or kind in ("image/svg+xml", "application/javascript"):
            new[kind] = _lines(value, lambda text: scrubber.text(text, "", pictures))
        elif kind.endswith("json"):
            new[kind] = scrubber.json(value, pictures=pictures)
        elif pictures and (clean := clean_png(decoded("".join(value)))):
            new["image/png"] = base64.b64encode(clean).decode()
        else:
            left_out = True
    return {**new, "text/plain": LEFT_OUT} if left_out else new


def _lines(value: Any, edit: Callable[[str], str]) -> Any:
    """What `edit` makes of a text, or of the lines that it is kept as."""
    if isinstance(value, str):
        return edit(value)
    return edit("".join(value)).splitlines(keepends=True)
