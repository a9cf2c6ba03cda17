"""A log line as the program wrote it, without what terminals, containers and services add."""

from __future__ import annotations

import json
import re

_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\^_])")
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]+")
_DOCKER = re.compile(r'^\{"log":"(.*?)(?:\\n)?"?(?:,"(?:stream|attrs|time)":.*)?$')
_PREFIX = re.compile(
    r"""
      [A-Za-z][\w.-]{0,63}\ *\|\                                     # docker compose
    | [A-Z][a-z]{2}\ [\d\ ]\d\ \d\d:\d\d:\d\d\ \S+\ [^\s:\[]+(?:\[\d+\])?:\   # journald, syslog
    | \[?\d{4}-\d\d-\d\d[T\ ]\d\d:\d\d:\d\d[^\s\]]*\]?\              # ISO time
    | \[[A-Z][a-z]{2}\ [A-Z][a-z]{2}\ [\d\ ]\d\ [\d:]{8}\ \d{4}\]\   # dmesg -T
    | \[\ *\d+\.\d+\]\                                               # dmesg
    | (?:stdout|stderr)\ [FP]\                                       # Kubernetes
    | \[(?:pid\ +)?\d+\]\                                            # strace, wrappers
    | \[\ *\d+(?:/\d+|%)\]\                                          # ninja, make
    | <\d>                                                           # a priority of systemd
    | \d+\.\d{2}\.\d{3}\.\d{3}\ [DIWE]\                              # llama.cpp
    | (?:INFO|DEBUG|ERROR|WARN(?:ING)?)\ *[:|]?\ (?=\d+\.\d{2}\.\d{3}\.)
    """,
    re.VERBOSE,
)


def clean(raw: bytes) -> str:
    """One line as text: colours, control characters and known prefixes undone, any bytes taken."""
    text = _ANSI.sub("", raw.decode("utf-8", "replace"))
    if text.startswith('{"log":"') and (wrapped := _DOCKER.match(text)):
        text = _ANSI.sub("", _unescaped(wrapped[1]))
    text = _CONTROL.sub("", text).rstrip()
    for _ in range(4):  # prefixes of prefixes
        if not (found := _PREFIX.match(text)):
            break
        text = text[found.end() :]
    return text


def _unescaped(text: str) -> str:
    try:
        return str(json.loads(f'"{text}"'))
    except ValueError:  # cut in an escape
        return text
