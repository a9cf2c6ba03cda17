"""A comparison for the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from keyelab.record.comparison.words import (
    CHANCE_SAID,
    changes,
    from_where,
    most_apart,
    named,
    rounded,
    swept,
)

_WIDE = 76  # A and B on one line, up to here
_MOST = 8  # entries of one difference, lines of one diff of diffs, …

Content = dict[str, Any]


def lines(content: Content) -> Iterator[str]:
    """What `diff.diff` found, the same order."""
    for letter in "ab":
        side = content[letter]
        took = "" if side["duration_s"] is None else f", {side['duration_s']:.0f} s"
        yield f"{letter.upper()}  {side['folder']}  {side['target']} {side['status']}{took}"
        yield from (f"   {letter.upper()} {doubt}" for doubt in side["doubts"])
    yield ""
    yield from _outcome(content)
    yield from _causes(content)
    if content["results"]:
        yield "what came of it:"
        yield from _tree(content["results"], 1)
    yield from _numbers(content)
    yield from _rest(content)


def _outcome(content: Content) -> Iterator[str]:
    for one in content["outcomes"]:
        first = " (the first that differs)" if one["phase"] == content["explained"] else ""
        why = f" ({one['reason']})" if one["reason"] else ""
        yield f"{one['phase']}: {one['a']} -> {one['b']}{why}{first}"
    for letter, failure in content["failures"].items():
        if failure:
            where = f"in {failure['phase']} ({failure['kind']})"
            yield f"  {letter.upper()} {failure['status']} {where}:"
            yield from (f"    {line}" for line in failure["message"].splitlines())
            yield f"    log: {content[letter]['folder']}/{failure['log']}"
    if not content["outcomes"]:
        yield "every phase ended alike"


def _causes(content: Content) -> Iterator[str]:
    phase = content["explained"]
    if content["causes"]:
        yield f"what may explain {phase}, nearest first:" if phase else "what differs:"
        yield from _tree(content["causes"], 1)
    elif phase:
        yield f"nothing that was recorded differs in what {phase} got: chance is left (load,"
        yield "  memory, network, another program); its logs may tell"
    elif not content["unrelated"]:
        yield "nothing that was recorded differs in what the phases got"
    if content["unrelated"]:
        yield f"what {phase} does not depend on:"
        yield from _tree(content["unrelated"][:_MOST], 1)
        yield from _more(content["unrelated"], 1)


def _tree(differences: list[Content], level: int) -> Iterator[str]:
    for one in differences:
        yield from (f"{'  ' * level}{line}" for line in _told(one))
        yield from _tree(one["follows"], level + 1)


def _told(one: Content) -> Iterator[str]:
    rows, name = changes(one), named(one)
    where = f"  ({from_where(one)})" if from_where(one) else ""
    if len(rows) > 1:
        yield f"{name}: {len(rows)} entries{where}"
        name = ""
    for what, a, b in rows[:_MOST]:
        head = ", ".join(part for part in (name, what) if part)
        indent = "" if name else "  "
        if len(head) + len(a) + len(b) < _WIDE:
            yield f"{indent}{head}: {a} -> {b}{where if name else ''}"
        else:
            yield f"{indent}{head}:{where if name else ''}"
            yield f"{indent}  A {a}"
            yield f"{indent}  B {b}"
    yield from _more(rows, 1)


def _more(found: Sequence[Any], level: int) -> Iterator[str]:
    if len(found) > _MOST:
        yield f"{'  ' * level}and {len(found) - _MOST} more, which --html and --json tell"


def _numbers(content: Content) -> Iterator[str]:
    known = [one for one in content["numbers"] if one["verdict"] != "unknown"]
    told = [one for one in known if not one["duration"] or one["verdict"] == "differs"]
    if told:
        yield "numbers:"
    for one in told:
        a, b = rounded(one["a"]), rounded(one["b"])
        if one["verdict"] == "equal":
            yield f"  {one['name']}: {a} {one['unit']} in both"
            continue
        times = f"  x {one['ratio']:.2f}" if one["ratio"] else ""
        yield f"  {one['name']}: {a} -> {b} {one['unit']}{times}  {one['verdict']}"
    if any(one["verdict"] == "may be chance" for one in told):
        yield f"  {CHANCE_SAID}"
    if sweeps := content["sweeps"]:
        yield f"  {swept(sweeps)}"
        for one in most_apart(sweeps):
            yield (
                f"    {one['place']}, {one['measure']}: x {one['ratio']:.2f} "
                f"({one['low']:.2f} to {one['high']:.2f}), {one['verdict']}"
            )


def _rest(content: Content) -> Iterator[str]:
    for one in content["patches"]:
        if one["only"]:
            continue  # the rules tell it
        yield f"patch {one['name']}, the diff of its diffs:"
        yield from (f"  {line}" for line in one["lines"][:_MOST])
        yield from _more(one["lines"], 1)
    if content["equal"]:
        yield f"equal: {', '.join(content['equal'])}"
    if content["other_source"]:
        names = [named(one) for one in content["other_source"]]
        more = f" and {len(names) - _MOST} more" if len(names) > _MOST else ""
        yield f"same value from another place: {', '.join(names[:_MOST])}{more}"
    if dark := [one["name"] for one in content["numbers"] if one["verdict"] == "unknown"]:
        yield f"unknown on one side: {', '.join(dark)}"
    for one in content["unknown"]:
        yield from (f"unknown on one side: {line}" for line in _told(one))
    if content["notebooks"]:
        yield "notebooks (with nbdime):"
        yield from (f"  {command}" for command in content["notebooks"])
