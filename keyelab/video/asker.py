"""Asks a server about pictures as 07_video_test does, but greedily and without its prompt cache."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import requests

from keyelab import apikey
from keyelab.errors import KeyelabError
from keyelab.facts import ServeFacts
from keyelab.params import VideoTest
from keyelab.video import chat, frame, question
from keyelab.video.sample import Pick
from keyelab.video.unseen import SIDE_PX, Picture


@dataclass
class Asker:
    """One server and one text before each frame; `folder` keeps the last reply as it came."""

    url: str
    folder: Path
    frame_text: str = "Frame {number}:"

    def __call__(self, pictures: Sequence[Picture], prompt: str, quality: int = 90) -> str:
        """The answer about pictures that are sent as JPEG of this quality."""
        return self.reply(pictures, prompt, quality).answer

    def reply(self, pictures: Sequence[Picture], prompt: str, quality: int = 90) -> chat.Reply:
        """The whole reply; raises KeyelabError when the server refuses or is gone."""
        params = VideoTest(frame_text=self.frame_text, temperature=0, max_tokens=64)
        frames = [
            frame.encode(rgb, pick, number, quality)
            for number, (pick, rgb) in enumerate(pictures, 1)
        ]
        body = question.request(frames, params, "", prompt) | {"cache_prompt": False}
        try:
            return chat.ask(self.server, body, timeout_s=60, kept=self.folder / "reply.jsonl")
        except KeyelabError as error:
            self._asked_who()  # says it better when the server is gone
            raise KeyelabError(error.message, f"look at the log of {self.url}") from None

    @cached_property
    def props(self) -> dict[str, Any]:
        """What the server says of itself; raises KeyelabError when nothing answers there."""
        return self._asked_who()

    def _asked_who(self) -> dict[str, Any]:
        try:
            with apikey.session() as session:
                reply = session.get(f"{self.url}/props", timeout=10)
            reply.raise_for_status()
            found: dict[str, Any] = reply.json()
        except (requests.exceptions.RequestException, ValueError) as error:
            raise KeyelabError(
                f"expected llama-server at {self.url}, found {type(error).__name__}",
                "start one with the demo model: keyelab run --to serve "
                "--set serve.keep_server=true",
            ) from None
        return found

    @cached_property
    def server(self) -> ServeFacts:
        """The server as the rest of the package knows it; its process and log are unknown."""
        return ServeFacts(
            url=self.url, pid=0, state_file="", log="", alias="", context_tokens=None, slots=None,
            build_info=self.props.get("build_info", ""), ready_s=0.0, command="",
            model_path=self.props.get("model_path", ""),
        )  # fmt: skip

    @cached_property
    def fuses(self) -> bool:
        """Whether it makes one picture of two that have no text between them (b9631 to b10502)."""
        import numpy

        if self.frame_text:
            return False
        grey = (Pick(None, 0), numpy.full((SIDE_PX, SIDE_PX, 3), 40, numpy.uint8))
        one, two = (self.reply([grey] * count, "What?").prompt_tokens for count in (1, 2))
        return one == two

    def pictures_seen(self, frames: int) -> int:
        """How many pictures the model gets of so many frames."""
        return -(-frames // 2) if self.fuses else frames
