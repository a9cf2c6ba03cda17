"""What llama-server's log says, as one regular expression over a block of lines.

Each statement is a template: `#` is a number that is kept, a space any run of spaces, `~`
one or none. The wordings are those of tools/server and tools/mtmd in b10019, b10502, b11010 and
b11434, of the article's build, and of public logs from 2023 to 2025. Templates begin with a letter
or a set of letters: so the search skips a line that is of no interest after a few steps.
"""

from __future__ import annotations

import re

_NUMBER = r"([-.\dinfa]+)"  # inf and nan among them
_END = r"(?=[\x20\t\r]*(?:\n|\\[rn]))"  # \n in letters: JSON around the line
_TIMED = r" = # ms / # (?:tokens|runs) \(~# ms per token, # tokens per second\)"
_DRAFTS = r"draft acceptance(?: rate)? = # \(~# accepted / # generated\)"
SLOT = {  # after `slot function: id  0 | task 7 | `
    "mark": r"n_(?:decoded|gen) = #, tg = # t/s(?:, tg_3s = # t/s)?",
    "prompt": r"prompt eval time" + _TIMED,
    "decode": r"eval time" + _TIMED,
    "graphs": r"graphs reused = #" + _END,
    "draft": _DRAFTS,
    "progress": r"prompt processing, n_tokens = #, progress = #, t = # s / # tokens per second",
    "batch": r"prompt processing progress, n_(?:past|tokens) = #, [^\n]*?progress = #" + _END,
    "launch": r"processing task(?:, is_child = [01])?" + _END,
    "release": r"stop processing: n_(?:tokens|past) = #, truncated = ([01])",
    "whole": r"new prompt, n_ctx_slot = #, n_keep = #, (?:task\.n|n_prompt)_tokens = #" + _END,
    "whole_cached": r"need to evaluate at least 1 token [^\n]*?_tokens(?:\(\))? = #",
    "cached": r"kv cache rm \[#, end\)",
    "encode": r"encoding mtmd batch from idx = #, n_chunks = #" + _END,
    "shift": r"slot context shift,",
    "reprocess": r"forcing full prompt re-processing",
    "checkpoint": r"created context checkpoint # of # [^\n]*?size = # MiB",
    "slot_context": r"new slot,? n_ctx(?:_slot)? = #" + _END,
    "block": _END,  # until 2026 the three lines of the timings follow, without a beginning
    "cut": r"[pednsg](?:rompt eval time|val time|raft acceptance|top processing: n|raphs reused"
    r"|rompt processing, n|_(?:decoded|gen) =(?!~\d+, n_))",
}
OTHER = {  # after `srv  function: `, after another tag, or after none
    "updating": r"updating prompt cache",
    "cache": r"- cache state: # prompts, # MiB",
    "kept": r"- prompt is already in the cache, skipping",
    "arrive": r"[Cc]hat format: ",
    "cancel": r"cancel task, id_task = #" + _END,
    "updated": r"prompt cache update took # ms",
    "saved": r"- saving prompt with length #, total state size = # MiB",
    "idle": r"all slots are idle",
    "kv_full": r"failed to find free space in the KV cache",
    "sleep": r"server is (?:entering|exiting) sleeping state",
    "loading": r"loading model(?: '|" + _END + r")",
    "projector_memory": r"\[mtmd\] estimated worst-case memory usage of mmproj is # MiB "
    r"\(took # ms\)",
    "multimodal": r"loaded multimodal model",
    "slots": r"initializing(?: slots)?, n_slots = #(?:, n_ctx_slot = #)?",
    "ready": r"model loaded" + _END,
    "listening": r"[sHl](?:TTP server is |erver is )?(?:istening|listening)(?: on |,|" + _END + ")",
    "weights": r"warming up the model",
    "tensors": r"loading model tensors",
    "projector": r"[hm](?:as vision encoder|odel name:)",
    "splits": r"graph splits = #",
    "build": r"build:? # \(",
    "image_prefill": r"[iav](?:mage|udio|ideo) decoded \(batch #/#\) in # ms",
    "image_batch": r"decoding (?:image|audio|video) batch #/#, n_tokens_batch = #" + _END,
    "image_encoded": r"[iav](?:mage|udio|ideo) slice encoded in # ms",
    "image_processed": r"[ia](?:mage|udio) processed in # ms",
    "slice": r"encoding (?:image|audio|video) slice",
    "headless": r"id \d+ \| task \d+ \|",
}
BARE = {  # lines of a block of timings
    "bare_prompt": r"prompt eval time" + _TIMED,
    "bare_decode": r"eval time" + _TIMED,
    "bare_draft": _DRAFTS,
    "bare_cut": r"[pe](?:rompt eval|val) time = ",
}
STAMPS = {"loading", "tensors", "weights", "projector", "multimodal", "ready", "listening"}
DAMAGED = {"cut", "bare_cut", "headless"}
KINDS = [*SLOT, *OTHER, *BARE]
_AROUND = r"""
    (?: [A-Z][a-z]{2}\ [\ \d]\d\ [\d:.]{8,15}\ +[^\n:]{1,99}(?::?\[\d+\])?:\   # journald, syslog
      | \[?\d{4}-\d\d-\d\d[T\ ]\d\d:\d\d:\d\d[^\s\]]*\]?\                  # ISO time
        (?:[\w.-]{1,64}\ [\w.@-]{1,64}\[\d+\]:\ )?                          # journald
      | (?:stdout|stderr)\ [FP]\                                           # Kubernetes
      | \{"log":"                                                          # docker, as files
      | <\d>                                                               # a priority of systemd
      | (?:INFO|DEBUG|WARN|ERROR)[:|]?\ +(?=\d+\.\d\d\.\d{3}\.)
    )*
"""
_WHEN = r"""
    (?: (?P<minute>\d{1,7})\.(?P<second>\d\d\.\d{3})\.(?P<us>\d{3})\ +[DIWE]\ +
      | \{"type":"log","time":(?P<json_us>\d+),"level":"\w+","msg":"
    )?
"""


def _any(templates: dict[str, str]) -> str:
    """One of the templates; the empty group at its end names it (`lastgroup`)."""
    return "|".join(
        template.replace(" ", " +").replace("~", " *") + f"(?P<{name}>)"
        for name, template in templates.items()
    ).replace("#", _NUMBER)


_HEAD = (  # looked ahead and repeated: so it is never tried twice
    rf"(?=(?P<head>(?P<source>[A-Za-z][\w.-]{{0,63}} *\| )?(?x:{_AROUND})"
    rf"(?P<child>\[ *\d+\] )?(?x:{_WHEN})))(?P=head)"
)
STATEMENT = re.compile(
    (
        rf"\n{_HEAD}(?:slot +[^:\n|]+: id +(?P<slot>\d+) \| task (?P<task>-?\d+) \| *"
        rf"(?:{_any(SLOT)})"
        rf"|(?:srv +\w*(?:\(\))?: +(?:\w+: )?|cmn +\w*: (?:\w+: )?|\w+: +)?(?:{_any(OTHER)})"
        rf"|(?:(?:llama_)?print_timings: )? *(?:{_any(BARE)}))"
    ).encode()
)
