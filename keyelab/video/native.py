"""The video itself in a question (input_video): llama-server takes it apart with its own ffmpeg.

From b9631 on, with MTMD_VIDEO and with ffmpeg and ffprobe on the server's PATH. It takes 4 frames
a second without a limit, and turned clips arrive scrambled: ffprobe gives the size as stored, and
ffmpeg turns the frames (tools/mtmd/mtmd-helper.cpp, the same in b10019, b10502, b11010, b11434).
"""

from __future__ import annotations

import base64
import math
import shlex
from typing import Any

import requests

from keyelab import apikey
from keyelab.checks import Check, check
from keyelab.errors import KeyelabError
from keyelab.facts import ServeFacts
from keyelab.files import shown
from keyelab.params import VideoTest
from keyelab.video import question, tokens
from keyelab.video.probe import VideoInfo

FPS = 4.0
_LIMIT_MIB = 100  # CPPHTTPLIB_PAYLOAD_MAX_LENGTH
_PAIR = 2  # frames in one block of a video, in Qwen-VL projectors
_INSTEAD = "set video_test.mode: frames"


def requests_for(info: VideoInfo, params: VideoTest, model: str) -> list[dict[str, Any]]:
    """The bodies of all questions about a video file, its bytes first and the question last."""
    data = base64.b64encode(info.path.read_bytes()).decode()
    video = {"type": "input_video", "input_video": {"data": data}}
    return [
        question.body([video, question.text(prompt)], params, model)
        for prompt in (params.prompt, *params.more_prompts)
    ]


def require(info: VideoInfo, server: ServeFacts | None) -> None:
    """Raise KeyelabError where a video cannot be sent whole: kind of file, size, turned, server.

    Without a server (a dry run) only the file is looked at.
    """
    if not info.path.is_file():
        raise KeyelabError(f"expected a video file, found {shown(info.path)}", _INSTEAD)
    size_mib = info.path.stat().st_size * 4 / 3 / 2**20
    if size_mib > _LIMIT_MIB:
        raise KeyelabError(
            f"expected at most {_LIMIT_MIB} MiB in a request, which is llama-server's limit, found "
            f"{size_mib:.0f} MiB: {shown(info.path)} in base64",
            _INSTEAD,
        )
    if info.rotation_deg:
        raise KeyelabError(
            f"expected an upright video, found one turned by {info.rotation_deg:g}°: "
            "llama-server would scramble it",
            f"{_INSTEAD}, or: ffmpeg -i {shlex.quote(shown(info.path))} upright.mp4",
        )
    if server and not _modalities(server).get("video"):
        raise KeyelabError(
            f"expected a server that takes videos, {server.alias} ({server.build_info}) does not: "
            "it needs b9631 or later, built with MTMD_VIDEO, and a projector for pictures",
            _INSTEAD,
        )


def check_of(info: VideoInfo, params: VideoTest, server: ServeFacts | None, tile_px: int) -> Check:
    """Whether a slot holds what the server will make of the video, as far as it can be computed."""
    slot = server.context_tokens if server else None
    if info.duration_s is None:
        need, found = None, "the video's length is unknown"
    else:
        frames = math.ceil(info.duration_s * FPS)
        cost = tokens.of(info.width, info.height, tile_px) + tokens.MARKS
        need = math.ceil(frames / _PAIR) * cost + params.max_tokens
        found = f"about {need:,} tokens: {frames} frames in pairs of {cost:,}, and the answer"
    return check(
        "a slot holds the video",
        None if need is None or slot is None else need <= slot,
        expected="unknown" if slot is None else f"at most {slot:,} tokens",
        found=found,
        remedy=f"{_INSTEAD}: llama-server takes {FPS:g} frames a second and has no limit",
        warn=True,
    )


def _modalities(server: ServeFacts) -> dict[str, bool]:
    try:
        with apikey.session(server.api_key_file) as session:
            response = session.get(f"{server.url}/props", timeout=10)
            response.raise_for_status()
            found: dict[str, bool] = response.json().get("modalities", {})
            return found
    except (requests.RequestException, ValueError, AttributeError) as error:
        raise KeyelabError(
            f"expected the properties of the server at {server.url}, found none: {error}",
            "keyelab status",
        ) from None
