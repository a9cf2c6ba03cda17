"""IP and MAC addresses, told from versions, timestamps, times and bus addresses."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator

from keyelab.record.sharing.public import is_public

Place = tuple[int, int, str]

_OCTET = r"(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)"
_V4 = re.compile(rf"(?<![A-Za-z0-9.+])(?:{_OCTET}\.){{3}}{_OCTET}(?![A-Za-z0-9+]|\.\d)")
_STAMP = re.compile(r"\s+[IWEDT](?:\s|$)")  # llama-server: minutes.seconds.milli.micro, level
_VERSIONED = re.compile(
    r"(?i)(?:[=<>~!]=|[\^~]|(?<![a-z])v|(?<![a-z])(?:version|release|cuda|cudnn|rocm|hip|hipcc|dtk"
    r"|clang|gcc|driver|firmware|vbios|bios|build|revision|rev|ver|toolkit|runtime|compiler|sdk)"
    r"(?:[-_ ]?version)?\.?)[\"']?[\s:=|(]{0,4}[\"']?v?$"
)
_V6 = re.compile(
    r"(?<![\w:.])[0-9A-Fa-f]{1,4}:(?:[0-9A-Fa-f]{0,4}:){1,6}[0-9A-Fa-f]{0,4}(?:%\w+)?(?![\w:]|\.\d)"
)
# add::bad is C++; addresses in use are global (2, 3), unique local (fc, fd) or link-local (fe8)
_IN_USE = re.compile(r"(?i)(?:[23][0-9a-f]{3}|f[cd][0-9a-f]{2}|fe[89ab][0-9a-f]):")
_MAC = re.compile(
    r"(?<![\w:-])(?:[0-9A-Fa-f]{2}(:|-)(?:[0-9A-Fa-f]{2}\1){4,18}[0-9A-Fa-f]{2}"
    r"|[0-9A-Fa-f]{4}(\.|:)[0-9A-Fa-f]{4}\2[0-9A-Fa-f]{4}(?:\2[0-9A-Fa-f]{4})?)(?![\w:]|-\w|\.\d)"
)


def addresses(text: str) -> Iterator[Place]:
    """(start, end, kind) of each ip and mac address that says where a machine is.

    Loopback, any-address, netmasks and multicast stay, as do addresses that keyelab names itself.
    """
    for match in _V4.finditer(text):
        if _tells(match[0]) and not _is_version(text, match):
            yield (*match.span(), "ip")
    for match in _V6.finditer(text):
        if _tells(match[0]):
            yield (*match.span(), "ip")
    for match in _MAC.finditer(text):
        digits = re.sub(r"[^0-9a-f]", "", match[0].lower())
        clock = match[1] == "-" or match[2] is not None  # 26-12-01-08-47-00 is a time
        if len(set(digits)) > 1 and not (clock and digits.isdecimal()):
            yield (*match.span(), "mac")


def canonical(kind: str, value: str) -> str:
    """One spelling of an address."""
    if kind == "ip":
        return str(ipaddress.ip_address(value.partition("%")[0]))
    return re.sub(r"[^0-9a-f]", "", value.lower())


def _tells(value: str) -> bool:
    try:
        address = ipaddress.ip_address(value.partition("%")[0])
    except ValueError:
        return False
    if address.is_loopback or address.is_unspecified or address.is_multicast or is_public(value):
        return False
    if address.version == 4:
        return not value.startswith(("255.", "0."))
    return bool(_IN_USE.match(value))


def _is_version(text: str, match: re.Match[str]) -> bool:
    before = text[max(0, match.start() - 40) : match.start()]
    dashes = before.endswith("-") + text.startswith("-", match.end())  # name-12.4.5.8-py3
    if dashes and not (dashes == 1 and ipaddress.ip_address(match[0]).is_private):
        return True
    return bool(_STAMP.match(text, match.end()) or _VERSIONED.search(before))
