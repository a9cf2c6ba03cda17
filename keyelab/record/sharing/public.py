"""What is no secret because it stands in keyelab itself: its words, hosts and addresses."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path

import keyelab

_TEXTS = {".py", ".yaml", ".json", ".log", ".md", ".j2"}
# of what tools and packages print; everything below these names too
_SITES = """
github.com githubusercontent.com github.io json-schema.org gitlab.com gitee.com huggingface.co
hf.co hf-mirror.com modelscope.cn python.org jupyter.org readthedocs.io
w3.org gnu.org llvm.org cmake.org kernel.org debian.org ubuntu.com opensource.org apache.org
nvidia.com amd.com hygon.cn sourcefind.cn microsoft.com google.com googleapis.com ffmpeg.org
mozilla.org wikipedia.org arxiv.org ggml.ai
example.com example.org example.net
"""
# accounts and folders that name nobody
_NOBODY = """
root user users admin administrator nobody runner ubuntu debian centos ec2-user jovyan vagrant
docker daemon git guest shared public default none null unknown anonymous test models model datasets
dataset data cache home nas local tmp software apps images videos localhost localdomain localhost4
localhost6 ip6-localhost ip6-loopback broadcasthost host hostname server username name lost+found
www mail noreply
"""
SITES, NOBODY = frozenset(_SITES.split()), frozenset(_NOBODY.split())
PRIVATE = r"(?:local|lan|internal|intranet|intra|corp|localdomain|home\.arpa)"
_KINDS = "host|user|person|folder|mail|ip|mac|uuid|phone|serial|path|secret"
_ALIAS = re.compile(rf"(?:{_KINDS})-[a-z]{{1,3}}")


@lru_cache(maxsize=1)
def words() -> frozenset[str]:
    """Every word of the package, in lower case, with and without its dots and dashes."""
    found: set[str] = set()
    for path in Path(keyelab.__file__).parent.rglob("*"):
        if path.suffix in _TEXTS:
            text = path.read_text(encoding="utf-8", errors="replace").lower()
            found.update(re.findall(r"\w+", text))
            found.update(re.findall(r"\w[\w.@:-]*\w", text))
    return frozenset(found)


def is_public(value: str) -> bool:
    """Whether a value names nobody: an alias already, nobody's account, or a word of keyelab."""
    low = value.lower()
    return bool(_ALIAS.fullmatch(low)) or low in NOBODY or low in words()


def is_public_site(host: str) -> bool:
    """Whether a host is a well known site, or one below it."""
    labels = host.lower().rstrip(".").split(".")
    return any(".".join(labels[place:]) in SITES for place in range(len(labels)))


def short_name(host: str) -> str:
    """A host without its domain where that still tells it: gpu-07 of gpu-07.corp, not www."""
    low = host.lower()
    short = low.partition(".")[0]
    tells = re.search(r"[\d-]", short) or re.search(rf"\.{PRIVATE}$", low)
    return short if tells else low
