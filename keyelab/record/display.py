"""Outputs that read everywhere: markdown, text and PNG, each with a plain text twin."""

from __future__ import annotations

import base64
import html
from pathlib import Path


def markdown(text: str) -> None:
    """Show markdown; its source is the plain text twin."""
    _show({"text/markdown": text, "text/plain": text})


def code(text: str, language: str, summary: str) -> None:
    """Show fenced text, folded under a summary when there is one."""
    if summary:
        # one line: an empty one would end the HTML block, and some renderers close it at a fence
        content = html.escape(text.rstrip()).replace("\n", "&#10;")
        head = f"<details><summary>{html.escape(summary)}</summary>"
        block = f"{head}<pre>{content}</pre></details>"
    else:
        fence = "`" * max(3, _longest_run(text) + 1)
        block = f"{fence}{language}\n{text.rstrip()}\n{fence}"
    _show({"text/markdown": block, "text/plain": f"{summary}\n{text}" if summary else text})


def picture(path: Path, caption: str) -> None:
    """Show a PNG file; the caption is the plain text twin."""
    data = base64.b64encode(path.read_bytes()).decode()
    _show({"image/png": data, "text/plain": caption}, {"image/png": {"alt": caption}})
    markdown(f"*{caption}*")


def _show(data: dict[str, str], metadata: dict[str, dict[str, str]] | None = None) -> None:
    from IPython.core.getipython import get_ipython
    from IPython.display import display

    if get_ipython() is None:
        print(data["text/plain"])
    else:
        display(data, raw=True, metadata=metadata)


def _longest_run(text: str) -> int:
    longest = run = 0
    for character in text:
        run = run + 1 if character == "`" else 0
        longest = max(longest, run)
    return longest
