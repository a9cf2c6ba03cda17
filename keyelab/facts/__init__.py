"""Facts: what a phase leaves for the next ones, as facts/<phase>.json in the run folder.

Paths are written as `files.shown` gives them and read with `files.located`. A fact that could
not be read is None.
"""

from keyelab.facts.base import Facts, FileFact, read_facts
from keyelab.facts.build import BuildFacts, HeaderFacts, ModelFacts, PatchFact, SourceFacts
from keyelab.facts.host import VISIBLE, DeviceFact, EnvFacts, ProbeFacts
from keyelab.facts.perf import PerfFacts
from keyelab.facts.serve import ServeFacts, ServerFact
from keyelab.facts.video import AnswerFact, ClipFact, FrameFact, VideoFacts

__all__ = [
    "VISIBLE",
    "AnswerFact",
    "BuildFacts",
    "ClipFact",
    "DeviceFact",
    "EnvFacts",
    "Facts",
    "FileFact",
    "FrameFact",
    "HeaderFacts",
    "ModelFacts",
    "PatchFact",
    "PerfFacts",
    "ProbeFacts",
    "ServeFacts",
    "ServerFact",
    "SourceFacts",
    "VideoFacts",
    "read_facts",
]
