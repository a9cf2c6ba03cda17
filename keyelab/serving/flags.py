"""The flags that a llama-server takes, as its own --help tells."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from keyelab import shell
from keyelab.errors import CommandFailed, KeyelabError, UsageError
from keyelab.files import shown

_FLAG = re.compile(r"^(-[^\s,]*(?:,\s+-[^\s,]*)*)(?: (\S.*?))?(?:\s{3,}(.*))?$")
_DEVICE = re.compile(r"^  (\S+): ", re.MULTILINE)
_CHOICES = re.compile(r"allowed values:\s*((?:\w+,\s+)+\w+)|^[\[{]([\w|,]+)[\]}]$", re.MULTILINE)
_GONE = "the argument has been removed"
# no build has all of them, and the parameter takes the one that is there
_INSTEAD = dict.fromkeys(("--mmap", "--no-mmap", "--load-mode", "-lm"), "serve.load_mode")


@dataclass(frozen=True)
class Flag:
    """One flag: all its spellings, how many values follow it, which are allowed (() any)."""

    names: tuple[str, ...]
    values: int
    choices: tuple[str, ...]
    text: str

    @property
    def gone(self) -> bool:
        """Whether it is listed only to say that it was removed."""
        return self.text.startswith(_GONE)


@dataclass(frozen=True)
class Offer:
    """The flags of a build, by each of their spellings."""

    build: str
    flags: Mapping[str, Flag]

    def find(self, name: str) -> Flag | None:
        """The flag of a spelling; llama-server takes _ for - in long ones."""
        flag = self.flags.get(plain(name))
        return None if flag is None or flag.gone else flag

    def require(self, name: str, who: str) -> Flag:
        """The flag of a spelling; UsageError with `who` asked for it and what is near."""
        if flag := self.find(name):
            return flag
        known = [other for other in self.flags if self.find(other)]
        near = difflib.get_close_matches(plain(name), known, n=3)
        gone = self.flags.get(plain(name))
        why = f": {gone.text}" if gone else f"; near: {' '.join(near)}" if near else ""
        instead = _INSTEAD.get(plain(name), who)
        raise UsageError(
            f"{who}: llama-server {self.build} has no flag {name}{why}",
            f"take {name} out, and set {instead}: it becomes the flag that this build has"
            if instead != who
            else f"take it out of {who}, or build a llama.cpp that has it: source_patch.version"
            if "extra_args" in who
            else f"leave {who} at its default, or build a llama.cpp that has the flag: "
            "source_patch.version",
        )

    def walk(self, words: Sequence[str], who: str) -> Iterator[tuple[Flag, str, list[str]]]:
        """Each flag among the words, as it is spelled there, and its values.

        Raises UsageError for an unknown flag, a value without one, and a missing value.
        """
        left = list(words)
        while left:
            name = left.pop(0)
            if not name.startswith("-"):
                raise UsageError(
                    f"expected a flag in {who}, found the value {name!r}",
                    f"{who}: [--flag, value]: a flag and its value are two items, in this order",
                )
            if "=" in name:
                raise UsageError(
                    f"{who} holds {name.split('=')[0]}=…, and llama-server takes no = in a flag",
                    f"{who}: [{name.split('=')[0]}, value]: two items",
                )
            flag = self.require(name, who)
            values, left = left[: flag.values], left[flag.values :]
            if len(values) < flag.values:
                raise UsageError(
                    f"expected a value after {name} in {who}, found none",
                    f"{who}: [{name}, value]",
                )
            yield flag, name, values


def plain(name: str) -> str:
    """A flag as llama-server looks it up."""
    return name.replace("_", "-") if name.startswith("--") else name


def parse(text: str, build: str) -> Offer:
    """Read the output of --help: a line that starts with - begins the next flag.

    Raises KeyelabError when it lists none.
    """
    found: dict[str, Flag] = {}
    for entry in re.split(r"^(?=--?\w)", text, flags=re.MULTILINE)[1:]:
        first, _, rest = entry.partition("\n")
        match = _FLAG.match(first.rstrip())
        if match is None:
            continue
        names, value = tuple(re.split(r",\s+", match[1])), match[2] or ""
        told = " ".join(f"{match[3] or ''} {rest}".split())
        choices = _CHOICES.search(f"{value}\n{match[3] or ''}\n{rest}")
        allowed = re.split(r"[\s,|]+", (choices[1] or choices[2]).strip()) if choices else []
        count = len(re.sub(r"<[^>]*>|\[[^\]]*\]", "x", value).split())
        found |= dict.fromkeys(names, Flag(names, count, tuple(allowed), told))
    if not found:
        raise KeyelabError(
            f"expected flags in the --help of llama-server {build}, found none",
            "build it again: keyelab run --from build",
        )
    return Offer(build, found)


def offered(program: Path, build: str, env: Mapping[str, str]) -> Offer:
    """Ask a llama-server for its flags; KeyelabError when it does not answer."""
    return parse(_answer(program, "--help", env), build)


def devices(program: Path, env: Mapping[str, str]) -> list[str]:
    """The names of the devices that it sees, without the CPU."""
    return _DEVICE.findall(_answer(program, "--list-devices", env))


def _answer(program: Path, word: str, env: Mapping[str, str]) -> str:
    try:
        return shell.run([program, word], env=env, timeout_s=120).output
    except CommandFailed as error:
        raise KeyelabError(
            f"expected {shown(program)} {word} to answer, found: {error.message}",
            error.hint or "build it again: keyelab run --from build",
        ) from None
