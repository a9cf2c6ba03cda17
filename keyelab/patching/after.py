"""What the rules promise of a patched tree: their post-conditions, looked up file by file."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from keyelab.checks import Check, check
from keyelab.patching.rule import After, Probe, Rule


def post_conditions(tree: Path, rules: Iterable[Rule]) -> Iterator[Check]:
    """One check a post-condition, over every file that its glob names; no file is unknown.

    A rule that the tree does not need promises nothing.
    """

    def asked(probe: Probe | None) -> bool:
        return probe is None or probe.holds(_text(tree / probe.file))

    for rule in rules:
        for condition in rule.after if asked(rule.still_needed) else ():
            if not asked(condition.when):
                continue
            paths = sorted(path for path in tree.glob(condition.file) if path.is_file())
            verdict, found = look(condition, ((path.name, _text(path)) for path in paths))
            yield check(
                f"{rule.id}: {condition.name}",
                verdict,
                expected="holds",
                found=found,
                remedy=f"apply the rule {rule.id}: {rule.title}",
            )


def look(condition: After, files: Iterable[tuple[str, str]]) -> tuple[bool | None, str]:
    """Whether a condition holds in files (name, text), and what was found; None without files."""
    verdict: bool | None = None
    for name, content in files:
        text = content.replace("\r\n", "\n")
        if condition.present:
            verdict = verdict or condition.holds(text)
        elif hit := re.search(condition.absent, text, re.MULTILINE):
            line = text.count("\n", 0, hit.start()) + 1
            return False, f"{name}:{line} {' '.join(hit.group().split())[:200]}"
        else:
            verdict = True
    if verdict is None:
        return None, "no such file"
    return verdict, "holds" if verdict else f"nowhere {condition.present!r}"


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
