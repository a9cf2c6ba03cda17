"""Secrets and personal data as they stand in records, one kind a line, and where they can hide."""

from __future__ import annotations

import base64
import html
import json
import re
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from io import BytesIO
from urllib.parse import quote, unquote

NAME = "[a-z]{2}qz[a-z]{2,5}[0-9]{0,2}"
WORD = "[A-Za-z0-9]"
PNG = b"\x89PNG"


@dataclass(frozen=True)
class Kind:
    """`text` has {} for the value, which `pattern` generates."""

    name: str
    text: str
    pattern: str


def _kinds() -> list[Kind]:
    rows = (
        ("user of a home folder", "open /home/{}/models/m.gguf failed", NAME),
        ("user of a home folder on a data disk", "model /data/home/{}/m.gguf", NAME),
        ("user of a macOS home", "File /Users/{}/lab/x.py, line 3", NAME),
        ("user of a Windows home", r"C:\Users\{}\lab", NAME),
        ("user with a dot", "/home/{}/x", r"qz[a-z]{2,5}\.qz[a-z]{2,5}"),
        ("user in Chinese", "/home/{}/x", "[张王李赵]伟[一二三四]"),
        ("user in the environment", "USER={}", NAME),
        ("user of sudo", "SUDO_USER={}", NAME),
        ("user by key", "user: {}", NAME),
        ("user of id", "uid=1000({}) gid=1000(users)", NAME),
        ("owner in ls", "-rw-r--r-- 1 {} users 42 Dec  1 08:00 m.gguf", NAME),
        ("user by tilde", "cd ~{}/models", NAME),
        ("user of a prompt", "[{}@node-7 ~]$ make", NAME),
        ("user of ssh", "ssh -l {} node-7", NAME),
        ("host of a prompt", "root@{}:~# make", NAME),
        ("host in the environment", "HOSTNAME={}", NAME),
        ("host by key", "hostname: {}", NAME),
        ("host of uname", "Linux {} 5.10.0-28-amd64 #1 SMP x86_64 GNU/Linux", NAME),
        ("host of syslog", "Dec  1 08:12:04 {} kernel: amdgpu: fault", NAME),
        ("host of a URL", "GET http://{}:8080/health", NAME),
        ("host of a proxy", "https_proxy=http://{}.corp:3128", NAME),
        ("host of a private domain", "resolving {}.lan", NAME),
        ("host of a public domain", "resolving {}", r"gpu-qz[0-9]{2}\.qz[a-z]{3,5}\.edu\.cn"),
        ("host of Slurm", "SLURMD_NODENAME={}", NAME),
        ("host of /etc/hosts", "10.9.8.7 {}", NAME),
        ("host of an NFS mount", "{}:/export on /mnt type nfs", "nas[a-z]{2}qz[0-9]{2}"),
        ("IPv4 of a site", "connect to {} failed", r"10\.(1[0-9]|2[0-4])\.[1-9][0-9]\.[1-9]"),
        ("IPv4 of a home", "listening on {}:8080", r"192\.168\.[1-9][0-9]\.[1-9][0-9]"),
        ("IPv4, public", "peer {} closed", r"8[1-9]\.[1-9][0-9]\.[1-9][0-9]\.[1-9][0-9]"),
        ("IPv6, local", "inet6 {} scope link", "fe80::[1-9a-f][0-9a-f]{3}:[1-9a-f][0-9a-f]{3}"),
        ("IPv6, global", "from [{}]:443", "2001:da8:[1-9a-f][0-9a-f]{3}::[1-9a-f][0-9a-f]{3}"),
        ("IPv6, unique", "via {} dev eth0", "fd[0-9a-f]{2}:[1-9a-f][0-9a-f]{3}::[1-9a-f][0-9a-f]"),
        ("MAC", "link/ether {} brd", "02(:[0-9a-f]{2}){4}:a[0-9]"),
        ("MAC with dashes", "Physical Address: {}", "0A(-[0-9A-F]{2}){4}-B[0-9]"),
        ("e-mail", "From: {} wrote", r"qz[a-z]{3,6}@qz[a-z]{3,6}\.(com|cn|org)"),
        ("person of a commit", "Author: {} <x1@qzmail.org>", "Qz[a-z]{3,6} Zq[a-z]{3,6}"),
        ("phone", "phone: {}", r"\+86 13[0-9] [0-9]{4} [0-9]{4}"),
        ("serial number of a card", "Serial Number : {}", "TRCW[0-9]{12}"),
        ("unique id of a card", '"Unique ID": "{}"', "[1-9a-f]{2}[0-9]{2}[0-9a-f]{12}"),
        ("UUID of a card", "GPU-{}", "[0-9a-f]{6}a1(-[0-9a-f]{4}){3}-[0-9a-f]{12}"),
        ("UUID of a disk", "UUID={} /data ext4", "[0-9a-f]{6}b2(-[0-9a-f]{4}){3}-[0-9a-f]{12}"),
        ("machine id", "machine-id: {}", "[1-9a-f][0-9a-f]{30}[1-9]"),
        ("disk by id", "/dev/disk/by-id/ata-SSD_870_EVO_1TB_{}", "S6PT[A-Z0-9]{8}"),
        ("WWN of a disk", "wwn-0x{}", "5[0-9a-f]{14}7"),
        ("folder of a person", "/data/{}/llama.cpp", NAME),
        ("checkout", "run {}/records/cpu-demo/20261201T080847Z-a77d5e8d", "/opt/qz[a-z]{3,5}/lab"),
        ("password", "password={}", f"Qz{WORD}{{8,14}}"),
        ("passphrase", "passphrase: {}", f"Qz{WORD}{{8,14}}"),
        ("password in a URL", "git clone https://x:{}@git.qzcorp.cn/a.git", f"Qz{WORD}{{8,14}}"),
        ("password of netrc", "machine h login l password {}", f"Qz{WORD}{{8,14}}"),
        ("API key", "LLAMA_API_KEY={}", f"Qz{WORD}{{20,30}}"),
        ("API key as an option", "llama-server --api-key {}", f"Qz{WORD}{{20,30}}"),
        ("bearer token", "Authorization: Bearer {}", f"Qz{WORD}{{20,30}}"),
        ("basic authorization", "Authorization: Basic {}", f"Qz{WORD}{{16,24}}"),
        ("cookie", "Cookie: sid={}", f"Qz{WORD}{{16,24}}"),
        ("signed URL", "https://oss.qzcorp.cn/m.gguf?Expires=1&Signature={}", f"Qz{WORD}{{24}}"),
        ("Hugging Face token", "saw {} there", f"hf_{WORD}{{34}}"),
        ("OpenAI-style key", "saw {} there", f"sk-{WORD}{{32,40}}"),
        ("ModelScope token", "saw {} there", "ms-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"),
        ("GitHub token", "saw {} there", f"ghp_{WORD}{{36}}"),
        ("GitHub fine-grained token", "saw {} there", f"github_pat_{WORD}{{40}}"),
        ("GitLab token", "saw {} there", f"glpat-{WORD}{{20}}"),
        ("Slack token", "saw {} there", f"xoxb-[0-9]{{10}}-{WORD}{{16}}"),
        ("AWS key id", "saw {} there", "AKIA[A-Z0-9]{16}"),
        ("Aliyun key id", "saw {} there", f"LTAI{WORD}{{20}}"),
        ("Google key", "saw {} there", f"AIza{WORD}{{35}}"),
        ("NVIDIA key", "saw {} there", f"nvapi-{WORD}{{40}}"),
        ("npm token", "saw {} there", f"npm_{WORD}{{36}}"),
        ("PyPI token", "saw {} there", f"pypi-{WORD}{{60}}"),
        ("Vault token", "saw {} there", f"hvs\\.{WORD}{{24}}"),
        ("Stripe key", "saw {} there", f"sk_live_{WORD}{{24}}"),
        ("JSON web token", "saw {} there", rf"eyJ{WORD}{{20}}\.eyJ{WORD}{{20}}\.{WORD}{{30}}"),
        ("private key", "-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----",
         f"MII{WORD}{{61}}"),
        ("SSH public key", "ssh-ed25519 {} x1@node-7", f"AAAA{WORD}{{64}}"),
        ("SSH fingerprint", "key SHA256:{}", f"{WORD}{{43}}"),
    )  # fmt: skip
    return [Kind(*row) for row in rows]


KINDS = _kinds()


def _whole(text: str) -> str:
    return text


def coloured(text: str) -> str:
    """Each word in a colour of its own."""
    return re.sub(r"[^\W_]+", lambda match: f"\x1b[3{len(match[0]) % 8}m{match[0]}\x1b[0m", text)


def base64_of(text: str) -> str:
    """A text in base64."""
    return base64.b64encode(f"{text}\n".encode()).decode()


ENCODINGS: dict[str, Callable[[str], str]] = {
    "plain": _whole,
    "coloured": coloured,
    "URL": quote,
    "URL with every slash": lambda text: quote(text, safe=""),
    "JSON": json.dumps,
    "JSON in JSON": lambda text: json.dumps(json.dumps(text)),
    "HTML": lambda text: f"<td>{html.escape(text)}</td>",
    "HTML by number": lambda text: "".join(f"&#{ord(c)};" if c in "@:/" else c for c in text),
    "HTML in JSON": lambda text: json.dumps({"text/html": html.escape(text)}),
    "base64": base64_of,
    "data URL": lambda text: f"see data:text/plain;base64,{base64_of(text)}",
    "diff": lambda text: "".join(f"+{line}\n" for line in text.splitlines()),
    "in the middle": lambda text: f"first line\n{text}\nlast line\n",
}


def readings(text: str, depth: int = 4) -> Iterator[str]:
    """A text, and what it reads as once its escapes are resolved, again and again."""
    for token in re.findall(r"[A-Za-z0-9+/]{12,}={0,2}", text) if depth else []:
        try:
            raw = base64.b64decode(token + "=" * (-len(token) % 4))
        except ValueError:
            continue
        if raw.startswith(PNG) or raw.isascii() or "qz" in raw.decode(errors="replace"):
            yield from _of_bytes(raw, depth - 1)
    for _ in range(5):
        text = re.sub(r"\x1b\[[0-9;]*m", "", text)
        yield text
        text = re.sub(r"\\u([0-9a-f]{4})", lambda match: chr(int(match[1], 16)), text)
        text = text.replace('\\"', '"').replace("\\\\", "\\").replace("\\n", "\n")
        text = unquote(html.unescape(text))


def everything(archive: bytes) -> str:
    """All that can be read in a zip file: names, files, cells, pictures, base64."""
    found = []
    with zipfile.ZipFile(BytesIO(archive)) as members:
        for info in members.infolist():
            found += [info.filename, info.comment.decode(), info.extra.decode(errors="replace")]
            content = members.read(info)
            found += _of_bytes(content, 2)
            if info.filename.endswith(".ipynb"):
                found += ["".join(lines) for lines in _line_lists(json.loads(content))]
    return "\n".join(found)


def _of_bytes(content: bytes, depth: int) -> Iterator[str]:
    if content.startswith(PNG):
        yield content.decode("latin-1")
        place = 8
        while place + 8 <= len(content):
            size = int.from_bytes(content[place : place + 4], "big")
            body = content[place + 8 : place + 8 + size]
            for start in range(min(90, len(body))):
                if body[start : start + 1] == b"\x78" and content[place + 4 : place + 8] != b"IDAT":
                    yield _unpacked(body[start:])
            place += size + 12
    else:
        yield from readings(content.decode(errors="replace"), depth)


def _unpacked(data: bytes) -> str:
    try:
        return zlib.decompressobj().decompress(data).decode(errors="replace")
    except zlib.error:
        return ""


def _line_lists(value: object) -> Iterator[list[str]]:
    if isinstance(value, dict):
        for item in value.values():
            yield from _line_lists(item)
    elif isinstance(value, list):
        if all(isinstance(item, str) for item in value):
            yield value
        for item in value:
            yield from _line_lists(item)
