"""A log of any size as blocks of whole lines: encodings, colours and older wordings undone.

Memory is that of two blocks. A line longer than LONGEST is cut there: nothing that the server
states is nearly so long.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Iterator
from typing import IO

BLOCK = 1 << 18
LONGEST = 1 << 20
NOT_SAID = -2  # the task of a line that names only the slot
_HEAD = 1 << 16
_ESCAPES = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\n\x07\x1b]*(?:\x07|\x1b\\))")
_RECORD = rb"\d{1,7}\.\d\d\.\d{3}\.\d{3} +[DIWE] "
_FLATTENED = re.compile(_RECORD + rb"[^\n]*?[^\n\d.]" + _RECORD)
_RECORDS = re.compile(rb"(?<=[^\n\d.])(?=" + _RECORD + rb")")
_FIELD = re.compile(rb'"?\b(\w+)"?[:=]"?([\w.-]+)')
_OF_OLD = (b'"tid"', b" tid=", b'"timestamp"', b" [task id: ", b" tokens in cache)")
_BEFORE_LATE_2024 = re.compile(
    rb'\{"(?:tid|timestamp|function|level)":[^\n]*?"(?:msg|message)":" *(?P<said>[^"\n]*)"'
    rb"(?P<fields>[^\n]*)|(?:INFO|WARN|ERR) +\[ *\w+\] +(?P<text>[^|\n]*?) +\|(?P<more>[^\n]*)"
    rb"|slot (?P<slot>\d+) is processing \[task id: (?P<task>\d+)\]"
    rb"|slot (?P<of>\d+) (?:released \(\d+ tokens in cache\)"
    rb"|: kv cache rm - (?P<from>\[\d+, end\)))"
)


def blocks(stream: IO[bytes], size: int = BLOCK) -> Iterator[tuple[bytes, bool]]:
    """(block, last): each begins with the line break before its first line, all but the last end
    with one, which is the first of the next block.

    What kind of file it is, is settled by its first 64 KiB, whatever `size` is.
    """
    head = b""
    while len(head) < _HEAD and (more := stream.read(_HEAD - len(head))):
        head += more
    decode = _decoder(head)
    flat = _FLATTENED.search(decode(head)) is not None
    decode = _decoder(head)
    buffer, block = b"\n", head
    while block:
        buffer += decode(block)
        if flat:
            buffer = _RECORDS.sub(b"\n", buffer)
        end = buffer.rfind(b"\n")
        if end > 0:
            yield _plain(buffer[: end + 1]), False
            buffer = buffer[end:]
        elif len(buffer) > LONGEST:
            buffer = buffer[:LONGEST]
        block = stream.read(size)
    yield _plain(buffer), True


def _decoder(head: bytes) -> Callable[[bytes], bytes]:
    """What makes UTF-8 of the file's bytes; nothing is to be done for UTF-8 itself."""
    wide = [
        name
        for name, mark, zero in (
            ("utf-16-le", codecs.BOM_UTF16_LE, head[1:400:2]),
            ("utf-16-be", codecs.BOM_UTF16_BE, head[:400:2]),
        )
        if head.startswith(mark) or (len(zero) > 8 and zero.count(0) > 0.9 * len(zero))
    ]
    if not wide:
        return bytes
    decoder = codecs.getincrementaldecoder(wide[0])("replace")
    return lambda block: decoder.decode(block).encode("utf-8", "replace")


def _plain(block: bytes) -> bytes:
    """The block as the server wrote it, in the wordings of late 2024 and after.

    No line is added or taken away: line numbers stay those of the file.
    """
    block = block.replace(b"\xef\xbb\xbf", b"")
    if b"\x1b" in block:
        block = _ESCAPES.sub(b"", block)
    if b'\\"type\\":' in block:  # JSON in JSON
        block = block.replace(b'\\"', b'"').replace(b"\\\\", b"\\")
    if any(sign in block for sign in _OF_OLD):
        block = _BEFORE_LATE_2024.sub(_reworded, block)
    return block


def _reworded(found: re.Match[bytes]) -> bytes:
    if found["task"]:
        return b"slot launch: id %b | task %b | processing task" % (found["slot"], found["task"])
    if found["of"]:  # says no task: the one that runs there; the tokens count differently
        said = b"stop processing: n_tokens = nan, truncated = 0"
        said = b"kv cache rm " + found["from"] if found["from"] else said
        return b"slot x: id %b | task -2 | %b" % (found["of"], said)
    said = (found["said"] or found["text"] or b"").strip()
    fields = dict(_FIELD.findall(found["fields"] or found["more"] or b""))
    slot, task = (fields.get(b"id_" + n, fields.get(n + b"_id")) for n in (b"slot", b"task"))
    said = said.removeprefix(b"generation ").replace(b" runs ", b" tokens ")
    said = said.replace(b"slot is processing task", b"processing task")
    if said == b"slot released":
        cut = b"1" if fields.get(b"truncated") == b"true" else b"0"
        said = b"stop processing: n_tokens = %b, truncated = %b" % (fields.get(b"n_past", b""), cut)
    elif said.startswith(b"kv cache rm"):
        said = b"kv cache rm [%b, end)" % fields.get(b"p0", b"")
    return said if slot is None or task is None else b"slot x: id %b | task %b | %b" % (
        slot, task, said,
    )  # fmt: skip
