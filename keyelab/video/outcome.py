"""What 07_video_test leaves: the video, the frames, the answers and the scored clips."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from keyelab.facts import AnswerFact, ClipFact, FileFact, FrameFact, VideoFacts
from keyelab.files import sha256_file, sha256_tree, shown
from keyelab.params import VideoTest
from keyelab.video.budget import Budget
from keyelab.video.chat import Reply
from keyelab.video.frame import Frame
from keyelab.video.probe import VideoInfo


def facts(
    info: VideoInfo,
    frames: Sequence[Frame],
    params: VideoTest,
    replies: Sequence[Reply],
    *,
    coverage: float | None = None,
    budget: Budget | None = None,
    clips: Sequence[ClipFact] = (),
) -> VideoFacts:
    """What is kept of the questions and their answers."""
    prompts = [params.prompt, *params.more_prompts]
    answers = [answer(*pair) for pair in zip(prompts, replies, strict=True)]
    return VideoFacts(
        **answers[0],
        video=_file(info),
        duration_s=info.duration_s,
        mode=params.mode,
        frames=[
            FrameFact(
                index=frame.pick.index,
                requested_s=frame.pick.requested_s,
                time_s=frame.pick.time_s,
                jpeg_bytes=len(frame.jpeg),
            )
            for frame in frames
        ],
        coverage=coverage,
        tokens_per_frame=budget.frame_tokens if budget and budget.measured else None,
        expected=params.expect,
        more=[AnswerFact(**one) for one in answers[1:]],
        clips=list(clips),
    )


def answer(prompt: str, reply: Reply) -> dict[str, Any]:
    """A question and its reply as the fields of an AnswerFact."""
    return {
        "prompt": prompt,
        "answer": reply.answer,
        "reasoning": reply.reasoning,
        "finish_reason": reply.finish_reason,
        "ttft_s": reply.ttft_s,
        "total_s": reply.total_s,
        "usage": reply.usage,
        "timings": reply.timings,
        "error": reply.error.message if reply.error else "",
    }


def _file(info: VideoInfo) -> FileFact:
    """The video's digest; a folder of pictures has the digest of its tree."""
    if info.path.is_dir():
        size = sum(path.stat().st_size for path in info.files)
        return FileFact(path=shown(info.path), sha256=sha256_tree(info.path), size_bytes=size)
    size = info.path.stat().st_size
    return FileFact(path=shown(info.path), sha256=sha256_file(info.path), size_bytes=size)
