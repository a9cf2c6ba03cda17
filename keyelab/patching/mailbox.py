"""A plan as a mailbox: one mail a rule, which `git am` makes one commit each."""

from __future__ import annotations

import textwrap
from email.header import Header

from keyelab.patching.plan import Outcome, Plan
from keyelab.patching.rule import Rule

# always the same, so that the same plan is the same file
_ENVELOPE = "From 0000000000000000000000000000000000000000 Mon Sep 17 00:00:00 2001"
_FROM = "keyelab <keyelab@localhost>"
_DATE = "Mon, 17 Sep 2001 00:00:00 +0000"


def mailbox(plan: Plan) -> str:
    """The mails of the rules that change something, in their order.

    `git am` applies them to the tree's own repository; one with CRLF needs `git am --keep-cr`.
    Raises DoesNotFit when a rule does not fit.
    """
    return "".join(_mail(outcome) for outcome in plan.require().outcomes if outcome.diff)


def _mail(outcome: Outcome) -> str:
    rule = outcome.rule
    subject = Header(f"{rule.id}: {rule.title}", maxlinelen=998).encode()
    return (
        f"{_ENVELOPE}\nFrom: {_FROM}\nDate: {_DATE}\nSubject: {subject}\nMIME-Version: 1.0\n"
        "Content-Type: text/plain; charset=UTF-8\nContent-Transfer-Encoding: 8bit\n\n"
        f"{_body(rule)}\n---\n{outcome.diff}-- \nkeyelab\n\n"
    )


def _body(rule: Rule) -> str:
    parts = [("Symptom", rule.why.symptom), ("Cause", rule.why.cause)]
    parts += [("Evidence", rule.why.evidence), *(("Upstream", link) for link in rule.why.upstream)]
    # indented, no line of the text can be taken for the start of a mail or of a diff
    return "\n".join(
        textwrap.fill(f"{name}: {' '.join(text.split())}", 76, subsequent_indent="  ",
                      break_long_words=False, break_on_hyphens=False) + "\n"
        for name, text in parts
        if text
    )  # fmt: skip
