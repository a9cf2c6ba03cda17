"""Cases of test-backend-ops, read from what it prints on a console.

Its CSV is not used: it leaves the error out (b10019 to b11434 all print it in front of the case).
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from keyelab.facts import PatchFact

OK, FAIL, UNSUPPORTED = "OK", "FAIL", "not supported"
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_CASE = re.compile(r"  ([A-Z0-9_]+)\(([^()\n]*)\): ")
_OUTCOME = re.compile(r"\b(OK|FAIL|not supported|NOT SUPPORTED|SUPPORTED)\b")
_ERROR = re.compile(r"ERR = (\S+ > \S+)|(NaN|inf sign mismatch|inf mismatch|sentinel mismatch)")


@dataclass(frozen=True)
class Case:
    """One test: the operation, its parameters, the outcome and the error of a failing one.

    `error` is "found > tolerance" (normalised mean squared error for most operations), or words
    such as NaN; '' where none is printed. The outcome of `support` is OK or not supported.
    """

    operation: str
    params: str
    outcome: str
    error: str = ""


def parse(output: str) -> list[Case]:
    """The cases in what test-backend-ops prints, in its order.

    An error stands before the case it belongs to. What the runtime writes to standard error gets
    between a case and its outcome; a case whose outcome never came is left out.
    """
    text = _COLOUR.sub("", output)
    marks = [*_CASE.finditer(text)]
    spans = [mark.span() for mark in marks]
    spans.append((len(text), len(text)))
    found, free = [], 0
    for mark, (here, after) in zip(marks, pairwise(spans), strict=True):
        outcome = _OUTCOME.search(text, here[1], after[0])
        if outcome is None:
            continue
        errors = [one or other for one, other in _ERROR.findall(text, free, here[0])]
        word = {"SUPPORTED": OK}.get(outcome[1], outcome[1])
        word = UNSUPPORTED if word.lower() == UNSUPPORTED else word
        worst = max(errors, key=_size, default="") if word == FAIL else ""
        found.append(Case(mark[1], mark[2], word, worst))
        free = outcome.end()
    return found


def rows(cases: Iterable[Case], patches: Sequence[PatchFact]) -> list[dict[str, object]]:
    """A table row an operation: its cases by outcome, the worst error, the rules to suspect."""
    by_operation: defaultdict[str, list[Case]] = defaultdict(list)
    for case in cases:
        by_operation[case.operation].append(case)
    table = []
    for name, its in sorted(by_operation.items()):
        count = Counter(case.outcome for case in its)
        worst = max((case.error for case in its), key=_size, default="")
        table.append(
            {
                "operation": name,
                **{outcome: count[outcome] for outcome in (OK, FAIL, UNSUPPORTED)},
                "worst error": worst or ("not printed" if count[FAIL] else ""),
                "suspect": ", ".join(suspects(name, patches)) if count[FAIL] else "",
            }
        )
    return table


def suspects(operation: str, patches: Sequence[PatchFact]) -> list[str]:
    """The rules that ask for this operation to be tested, or for one that it is fused from."""
    within = {name for patch in patches for name in patch.verify if name in operation}
    nearest = max(within, key=len, default=None)
    return [patch.id for patch in patches if nearest in patch.verify]


def _size(error: str) -> float:
    number, _, tolerance = error.partition(" > ")
    if tolerance:
        return float(number)
    return float("inf") if error else -1.0
