"""The text of the CUDA sources that one HIP pass sees, line for line."""

from __future__ import annotations

import re
from pathlib import Path

from keyelab.patching.macros import Macro, Macros, Unreadable

_COMMENT = re.compile(r'"(?:\\.|[^"\\\n])*"|//[^\n]*|/\*.*?\*/', re.DOTALL)
_NAME = re.compile(r"\w+")
_NOISE = re.compile(r"\bGGML_CUDA_RESTRICT\b|\b__align__\(\d+\)")  # the grammar stumbles over them
_WRAPPED = re.compile(r"([=!<&|,(]\s*)\((\w+)\)(?=\s*[&*+-])")  # (NAME) && x reads like a cast


class Pass(Macros):
    def holds(self, condition: str) -> bool:
        try:
            return super().holds(condition)
        except Unreadable:
            return True  # a launch too many can be looked at, one too few cannot


class Sources:
    """The active text of each file, line for line, with statement macros written out."""

    def __init__(self, folder: Path, definitions: list[str]) -> None:
        self.folder = folder
        self.skipped: dict[str, int] = {}
        self._base = Pass(definitions)
        self._tables: dict[str, dict[str, Macro]] = {}
        self._texts: dict[str, str] = {}
        self._include("common.cuh", self._base.table)
        self._base.table |= self._tables.get("common.cuh", {})
        # a header's text depends on its first includer: those come first
        paths = [*sorted(folder.rglob("*.cu")), *sorted(folder.rglob("*.cuh"))]
        self.files = [path.relative_to(folder).as_posix() for path in paths]

    def macros(self, file: str) -> dict[str, Macro]:
        self._include(file, self._base.table)
        return self._tables[file]

    def text(self, file: str) -> str:
        table = self.macros(file)
        statements = {n: m for n, m in table.items() if m.parameters and _is_statement(m, table)}
        text = _NOISE.sub("", self._texts[file])
        found = re.compile(rf"\b({'|'.join(statements)})\s*\(" if statements else "(?!)")
        for _ in range(3):  # a macro of macros
            if not found.search(text):
                break
            text = _expand(text, found, statements)
        return text

    def _include(self, file: str, known: dict[str, Macro]) -> None:
        if file in self._tables or not (self.folder / file).is_file():
            return
        macros = Pass([])
        macros.table = dict(known)
        self._tables[file] = macros.table
        raw = (self.folder / file).read_text(encoding="utf-8", errors="replace")
        text = _COMMENT.sub(
            lambda m: m[0] if m[0][0] == '"' else " " + "\n" * m[0].count("\n"), raw
        )

        def include(name: str) -> None:
            for place in ((Path(file).parent / name).as_posix(), name.removeprefix("../")):
                self._include(place, macros.table)
                macros.table.update(self._tables.get(place, {}))

        lines = text.split("\n")
        outline, continued = [], False
        for number, line in enumerate(lines):
            directive = continued or line.lstrip().startswith("#")
            continued = directive and line.endswith("\\")
            outline.append(line if directive else str(number))
        active = {int(line) for line in macros.lines("\n".join(outline), include) if line.strip()}
        kept = [line if number in active else "" for number, line in enumerate(lines)]
        dropped = [line for number, line in enumerate(lines) if number not in active]
        self.skipped[file] = sum(line.count("<<<") for line in dropped)
        self._texts[file] = "\n".join(kept)


def _is_statement(macro: Macro, table: dict[str, Macro]) -> bool:
    if macro.body.startswith("do"):
        return False
    inner = table.get(macro.body.partition("(")[0], macro)
    return bool({";", "{"} & set(macro.body + inner.body))


def _expand(text: str, found: re.Pattern[str], macros: dict[str, Macro]) -> str:
    parts, position = [], 0
    for match in found.finditer(text):
        if match.start() < position:
            continue
        macro, end, arguments = macros[match[1]], *_arguments(text, match.end())
        names = macro.parameters or []
        by_name = dict(zip(names, arguments, strict=False))
        body = _NAME.sub(lambda m, known=by_name: known.get(m[0], m[0]), macro.body)  # type: ignore[misc]
        if body.startswith("template"):
            body = ""  # an explicit instantiation says nothing that its callers do not say
        body = _WRAPPED.sub(r"\1\2", body)
        lines = text.count("\n", match.start(), end)
        parts += [text[position : match.start()], body.replace("##", ""), "\n" * lines]
        position = end
    return "".join([*parts, text[position:]])


def _arguments(text: str, start: int) -> tuple[int, list[str]]:
    """Where the parenthesis closes, and the arguments on one line each."""
    depth, last, arguments = 1, start, []
    for position in range(start, len(text)):
        letter = text[position]
        depth += (letter in "([{") - (letter in ")]}")
        if depth == 0 or (depth == 1 and letter == ","):
            arguments.append(" ".join(text[last:position].split()))
            last = position + 1
        if depth == 0:
            return position + 1, arguments
    return len(text), arguments
