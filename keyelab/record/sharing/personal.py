"""What counts as personal or secret, and where it stands in a text.

A rule knows a value by what stands around it. Names found so are looked for everywhere (names.py).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from keyelab.files import secret_spans
from keyelab.record.sharing.address import Place, addresses
from keyelab.record.sharing.public import PRIVATE, is_public, is_public_site

# in the order in which one wins where two overlap
KINDS = (
    "secret", "mail", "path", "uuid", "serial", "mac", "ip", "phone", "host", "user", "person",
    "folder",
)  # fmt: skip
_END = r"(?=[\"'\\]*\s*(?:$|[,;)}\]\r\n|<]))"


@dataclass(frozen=True)
class Rule:
    """Group 1 of `pattern` is of this kind, unless it is `plain`."""

    kind: str
    pattern: re.Pattern[str]
    plain: Callable[[str], bool] = is_public


def _rule(kind: str, pattern: str, plain: Callable[[str], bool] = is_public) -> Rule:
    return Rule(kind, re.compile(pattern, re.MULTILINE), plain)


def _known_host(value: str) -> bool:
    return is_public(value) or is_public_site(value) or not any(c.isalpha() for c in value)


_USER = r"[A-Za-z_][\w.-]*\w"
_PART = r"[^\s/\\:;,\"'<>|()\[\]]+"  # of a path
_HOST = r"[A-Za-z](?:[\w-]*\w)?(?:\.[\w-]*\w)*"
RULES = (
    _rule("mail", r"(?<![\w.+%-])([\w.+%-]+@(?:[A-Za-z0-9-]+\.)+[A-Za-z]{2,})(?![\w-])",
          lambda value: value.startswith("git@") or is_public(value)),
    _rule("path", r"(?<![\w.~\]/-])((?:/[^\s/:;,\"'<>|()\\]+)+)(?=/(?:records/[\w-]+/\d{8}T\d{6}Z-"
          r"|work/(?:builds|sources|servers|downloads|videos|gates|overlays)/|notebooks/\d\d_))"),
    _rule("uuid", r"(?<![0-9A-Fa-f])([0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12})"
          r"(?![0-9A-Fa-f])", lambda value: len(set(value)) < 4),
    _rule("uuid", r"\bGPU-([0-9A-Fa-f]{16})\b"),
    _rule("uuid", r"(?i)\b(?:machine|boot)[-_ ]?id[\"']?\s*[:=]?\s*[\"']?([0-9a-f]{32})\b"),
    _rule("uuid", r"\b(?:eui\.|nvme\.|naa\.|wwn-)(?:0x)?([0-9A-Fa-f-]{12,})"),
    _rule("serial", r"(?i)(?<![a-z])(?:serial(?:[-_ ]?(?:number|no|num))?|s/n|unique[-_ ]?id|wwn"
          r"|asset[-_ ]?tag|imei|service[-_ ]?tag|guid|序列号)\.?[\"'\]]?\s*[:=|：]\s*[\"'\[]?"
          r"((?=[\w-]*\d)[\w-]{5,})"),
    _rule("serial", r"/dev/disk/by-id/[\w.-]+_([A-Za-z0-9]{8,})"),
    _rule("serial", r"\bSHA256:([A-Za-z0-9+/]{43})(?![A-Za-z0-9+/])"),
    _rule("serial", r"\b(?:ssh-(?:rsa|ed25519|dss)|ecdsa-\S+) (AAAA[A-Za-z0-9+/]{20,}=*)"),
    _rule("phone", r"(?i)\b(?:phone|mobile|tel|电话|手机)[\"']?\s*[:=：]\s*[\"']?"
          r"(\+?\d[\d -]{6,}\d)"),
    _rule("host", rf"\b[A-Za-z][A-Za-z0-9+.-]*://(?:[^\s/@]*@)?({_HOST})"
          r"(?=[:/\s\"'?#)\],<>|;\\]|$)",
          _known_host),
    _rule("host", rf"(?<![\w.-])(?<!\w\+){_USER}@([A-Za-z][\w-]*)(?![\w-]*\.\w|[\w-])",
          _known_host),
    _rule("host", r"(?i)(?<![\w.-])((?:[a-z0-9][\w-]*\.)+"
          rf"{PRIVATE})(?![\w-])",
          _known_host),
    _rule("host", r"(?<![\w.@/-])((?:[A-Za-z0-9][\w-]*\.){2,}(?:com|net|org|edu|gov|cn|eu|de|uk|fr"
          r"|jp|kr|tw|hk|ru|in))(?![\w-]|\.\w)", _known_host),
    _rule("host", rf"(?:HOST|(?i:host[-_ ]?name|nodename|server[-_]?name|主机名?))[\"']?\s*[:=|：]"
          rf"\s*[\"']?({_HOST})", _known_host),
    _rule("host", rf"(?i)(?<![\w-])host[\"']?\s*[:=]\s*[\"']?({_HOST}){_END}", _known_host),
    _rule("host", r"\bLinux ([A-Za-z][\w.-]*\w) \d+\.\d+", _known_host),
    _rule("host", r"(?<!\w)(?:[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d"
          r"|\d{4}-\d\d-\d\dT[\d:.]+[+-]\d\d:?\d\d)"
          r" ([A-Za-z][\w.-]*\w) [\w./()-]+(?:\[\d+\])?:", _known_host),
    _rule("host", r"\bSLURM\w*(?:NODELIST|NODENAME)=([A-Za-z][\w.-]*)", _known_host),
    _rule("host", r"(?:^|[>\"'])[+\s]*(?:\d{1,3}\.){3}\d{1,3}[ \t]+"
          rf"({_HOST})[ \t]*(?=$|[<\"'])", _known_host),
    _rule("host", r"(?<![\w./-])([A-Za-z][\w-]*\d[\w.-]*):/(?=\w)", _known_host),
    _rule("host", r"(?<!\\)\\\\([A-Za-z][\w.-]+)\\\w", _known_host),
    _rule("user", rf"(?i)[/\\](?:home|homes|users)[/\\]+({_PART})"),
    _rule("user", r"(?<![\w/~])~([a-z_][\w.-]*)/"),
    _rule("user", rf"(?<![\w.@/-])(?<!\w\+)({_USER})@[A-Za-z][\w-]*(?![\w-]*\.\w|[\w-])"),
    _rule("user", r"\b(?:USER|LOGNAME|USERNAME|SUDO_USER|SLURM_JOB_USER)[\"']?\s*[=:]\s*"
          rf"[\"']?({_USER})"),
    _rule("user", rf"(?i)(?<![\w-])(?:users?|user_?name|login|logname|owner|account|用户名?)"
          rf"[\"']?\s*[:=：]\s*[\"']?({_USER}){_END}"),
    _rule("user", rf"\b[ug]id=\d+\(({_USER})\)"),
    _rule("user", rf"(?<![\w-])[-dlbcps][-rwxsStT]{{9}}[.+@]?\s+\d+\s+({_USER})\s"),
    _rule("user", rf"\bssh\b[^\n]*?\s-l\s*({_USER})"),
    _rule("person", r"(?i:author|committer|signed-off-by|co-authored-by|from|maintainer)"
          r"[\"']?\s*[:=]\s*[\"']?([^\W\d_][^<>\n\"@:]{2,40}?)\s*<[^<>\s]+@"),
    _rule("person", r"(?i)(?:real|full|user)[-_. ]?name[\"']?\s*[:=]\s*[\"']?"
          r"([^\W\d_]+(?: [^\W\d_]+){1,3})"),
    _rule("folder", r"(?<![\w.~\]/-])/(?:data\d*|mnt|nfs\d*|scratch|srv|storage|media|gpfs|lustre"
          r"|public|shared?|work|workspace|projects?|ssd\d*|disks?\d*|nvme\d*|teams?|groups?|vol\d*"
          r"|volumes?|raid\d*|hdd\d*)"
          r"(?:/(?:models?|datasets?|data\d*|nas\d*|nfs\d*|ssd\d*|disk\d*|nvme\d*|share|work))*/"
          rf"({_PART})" r"(?=/|[\s\"'\\]|$)",
          lambda value: is_public(value) or "." in value),
)  # fmt: skip


def places(text: str) -> Iterator[Place]:
    """(start, end, kind) of each value that its surroundings give away."""
    for start, end in secret_spans(text):
        yield start, end, "secret"
    yield from addresses(text)
    for rule in RULES:
        for match in rule.pattern.finditer(text):
            if not rule.plain(match[1]):
                yield (*match.span(1), rule.kind)
