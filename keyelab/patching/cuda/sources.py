"""The preprocessor: the lines and macros of each CUDA source that one compiler pass sees."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path
from posixpath import dirname, join, normpath

from keyelab.patching.cuda.interpreter import Interpreter, Macro
from keyelab.patching.cuda.syntax import Unreadable, expression

_COMMENT = re.compile(r'"(?:\\.|[^"\\\n])*"|//[^\n]*|/\*.*?\*/', re.DOTALL)
_DIRECTIVE = re.compile(r"\s*#\s*(\w+)\s*(.*)")
_DEFINE = re.compile(r"(\w+)(?:\(([^()]*)\))?\s*(.*)")
_DEFINED = re.compile(r"\bdefined\s*(?:\(\s*(\w+)\s*\)|(\w+))")

_NAME = re.compile(r"\w+")
_NOISE = re.compile(r"\bGGML_CUDA_RESTRICT\b|\b__align__\(\d+\)")  # the grammar stumbles over them
_WRAPPED = re.compile(r"([=!<&|,(]\s*)\((\w+)\)(?=\s*[&*+-])")  # (NAME) && x reads like a cast


class Macros:
    """The macros of one pass.

    `unsure` is the truth of a condition that cannot be read; without it that is Unreadable.
    """

    def __init__(self, definitions: Iterable[str], unsure: bool | None = None) -> None:
        """`definitions` are NAME or NAME=VALUE, as behind a compiler's -D."""
        self.unsure = unsure
        self.table: dict[str, Macro] = {}
        for definition in definitions:
            name, _, body = definition.partition("=")
            self.table[name] = Macro(None, body or "1")

    def holds(self, condition: str) -> bool:
        """The truth of the condition of an #if; a name that is not defined counts as 0."""
        plain = _DEFINED.sub(lambda m: str(int((m[1] or m[2]) in self.table)), condition)
        try:
            return bool(Interpreter(self.table).value(expression(plain), {}))
        except Unreadable:
            if self.unsure is None:
                raise
            return self.unsure

    def active(self, text: str, include: Callable[[str], None]) -> str:
        """The active lines of a file, each in its place, without comments and directives.

        Keeps the macros of the file; `include` is called with the names of included files.
        """
        lines, kept = iter(_COMMENT.sub(_blank, text).split("\n")), list[str]()
        active, taken = [True], [True]  # of each open #if: this branch; any branch so far
        for line in lines:
            found = _DIRECTIVE.match(line)
            if found is None:
                kept.append(line.removesuffix("\\") if active[-1] else "")
                continue
            kept.append("")
            word, rest = found.groups()
            while rest.endswith("\\"):
                rest = f"{rest[:-1]} {next(lines, '')}"
                kept.append("")
            if word in ("if", "ifdef", "ifndef"):
                active.append(active[-1] and self._branch(word, rest))
                taken.append(active[-1] or not active[-2])
            elif word in ("elif", "else"):
                active[-1] = not taken[-1] and (word == "else" or self.holds(rest))
                taken[-1] = taken[-1] or active[-1]
            elif word == "endif":
                active.pop()
                taken.pop()
            elif active[-1]:
                self._directive(word, rest, include)
        return "\n".join(kept)

    def _branch(self, word: str, rest: str) -> bool:
        if word == "if":
            return self.holds(rest)
        return (rest.strip() in self.table) == (word == "ifdef")

    def _directive(self, word: str, rest: str, include: Callable[[str], None]) -> None:
        if word == "define" and (found := _DEFINE.match(rest)):
            name, parameters, body = found.groups()
            listed = None if parameters is None else [p.strip() for p in parameters.split(",")]
            self.table[name] = Macro(listed, body.strip())
        elif word == "undef":
            self.table.pop(rest.strip(), None)
        elif word == "include" and rest.startswith('"'):
            include(rest.split('"')[1])


def _blank(found: re.Match[str]) -> str:
    """A string as it is; a comment as a space, and as many lines continued as it had."""
    return found[0] if found[0][0] == '"' else " " + "\\\n" * found[0].count("\n")


class Sources:
    """The active text and the macros of each file of a folder that is included.

    A header is read once, with the macros of its first includer.
    """

    def __init__(
        self, folder: Path, definitions: Iterable[str], unsure: bool | None = None
    ) -> None:
        self.folder, self._unsure = folder, unsure
        self.macros: dict[str, dict[str, Macro]] = {}
        self.texts: dict[str, str] = {}
        self._included: dict[str, list[str]] = {}
        self._base = Macros(definitions).table
        self.include("common.cuh")
        self._base |= self.macros.get("common.cuh", {})

    def include(self, file: str, known: dict[str, Macro] | None = None) -> None:
        """Read a file under the macros that are `known` before it, by default of common.cuh."""
        if file in self.macros or not (self.folder / file).is_file():
            return
        macros = Macros((), self._unsure)
        macros.table |= self._base if known is None else known
        self.macros[file], self._included[file] = macros.table, []

        def nested(name: str) -> None:
            for place in (normpath(join(dirname(file), name)), name):
                self.include(place, macros.table)
                if place in self.macros:
                    macros.table.update(self.macros[place])
                    self._included[file].append(place)
                    break

        text = (self.folder / file).read_text(encoding="utf-8", errors="replace")
        try:
            self.texts[file] = macros.active(text, nested)
        except Unreadable:
            del self.macros[file]
            raise

    def within(self, file: str) -> set[str]:
        """The file and all that it includes."""
        found, todo = set[str](), [file]
        while todo:
            found.add(one := todo.pop())
            todo += set(self._included[one]) - found
        return found

    def written_out(self, file: str) -> str:
        """The text with the macros that are statements written out."""
        table = self.macros[file]
        statements = {n: m for n, m in table.items() if m.parameters and _is_statement(m, table)}
        text = _NOISE.sub("", self.texts[file])
        found = re.compile(rf"\b({'|'.join(statements)})\s*\(" if statements else "(?!)")
        for _ in range(3):  # a macro of macros
            if not found.search(text):
                break
            text = _expand(text, found, statements)
        return text


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
        by_name = dict(zip(macro.parameters or [], arguments, strict=False))
        body = _NAME.sub(_replacing(by_name), macro.body)
        if body.startswith("template"):
            body = ""  # an explicit instantiation says nothing that its callers do not say
        body = _WRAPPED.sub(r"\1\2", body)
        lines = text.count("\n", match.start(), end)
        parts += [text[position : match.start()], body.replace("##", ""), "\n" * lines]
        position = end
    return "".join([*parts, text[position:]])


def _replacing(by_name: dict[str, str]) -> Callable[[re.Match[str]], str]:
    return lambda found: by_name.get(found[0], found[0])


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
