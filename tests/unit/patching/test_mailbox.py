"""A mailbox is the same every time, and holds nothing of the person or the machine."""

from __future__ import annotations

from contextlib import closing
from email.header import decode_header, make_header
from mailbox import mbox
from pathlib import Path

import pytest

from keyelab.patching.mailbox import mailbox
from keyelab.patching.plan import DoesNotFit, make_plan
from keyelab.patching.rule import Rule


def rule(id: str, find: str, title: str = "Half the block") -> Rule:
    return Rule.model_validate(
        {
            "id": id,
            "title": title,
            "why": {
                "symptom": "---\n\ndiff --git a/x b/x",
                "cause": "word " * 40 + "\nFrom here on it is wrong.",
                "evidence": "line 1",
                "upstream": ["https://example.org/1"],
            },
            "applies_to": ["a.txt"],
            "edits": [{"find": find, "replace": "256"}],
        }
    )


def test_one_mail_a_rule_that_changes_something(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("1024 and 512\n", encoding="utf-8")
    rules = [rule("first", "1024"), rule("second", "512", "Größe halbiert")]
    text = mailbox(make_plan(tmp_path, rules))
    assert text == mailbox(make_plan(tmp_path, rules))
    assert str(tmp_path) not in text
    (tmp_path / "mails").write_text(text, encoding="utf-8")
    with closing(mbox(tmp_path / "mails")) as mails:
        first, second = mails
    assert first["Subject"] == "first: Half the block"
    assert first["From"] == "keyelab <keyelab@localhost>"
    assert str(make_header(decode_header(second["Subject"]))) == "second: Größe halbiert"
    body = first.get_payload(decode=True).decode()
    message, patch = body.split("\n---\n")
    assert message.startswith("Symptom: --- diff --git a/x b/x\n\nCause: word word")
    assert "Upstream: https://example.org/1" in message
    assert all(line[:1] in (" ", "", "S", "C", "E", "U") for line in message.splitlines())
    assert "-1024 and 512\n+256 and 512\n" in patch


def test_a_rule_that_does_not_fit_makes_no_mailbox(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("512\n", encoding="utf-8")
    with pytest.raises(DoesNotFit):
        mailbox(make_plan(tmp_path, [rule("first", "1024"), rule("second", "512")]))
