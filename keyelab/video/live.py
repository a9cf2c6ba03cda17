"""The answer as it comes, on standard output."""

from __future__ import annotations


class Live:
    """Prints each piece of text at once; reasoning is set apart by a line before and after."""

    def __init__(self) -> None:
        self._reasoning: bool | None = None

    def __call__(self, text: str, is_reasoning: bool) -> None:
        """Print one piece."""
        if is_reasoning != self._reasoning and (is_reasoning or self._reasoning):
            print("\n[reasoning]" if is_reasoning else "\n[answer]", flush=True)
        self._reasoning = is_reasoning
        print(text, end="", flush=True)

    def __enter__(self) -> Live:
        return self

    def __exit__(self, *error: object) -> None:
        print(flush=True)
