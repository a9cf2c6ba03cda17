"""Does llama-server answer as transformers does? `python -m keyelab.models.demo.agree URL`.

Both get the same JPEG files and the same words, and decode greedily. Compared are the text of the
answer and the number of prompt tokens.
"""

from __future__ import annotations

import argparse
import base64
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import requests

from keyelab.errors import KeyelabError
from keyelab.files import write_json

FOLDER = Path(__file__).parent
NAMES = ("keyelab-tiny-f16.gguf", "mmproj-keyelab-tiny-f16.gguf")
# pictures that nobody has to scale, of whole patches, and those that both scale in their own way
SIZES = {
    "96 × 96 px": ((96, 96),),
    "whole patches": ((128, 128), (160, 128), (128, 96), (192, 128), (224, 224), (224, 128)),
    "scaled": ((112, 112), (160, 120), (150, 110), (224, 126), (90, 120), (200, 200)),
}
_ASKED = ("What happens in these pictures?", "What colour is it?", "它是什么形状？")


def compare(
    url: str,
    folder: Path = FOLDER,
    *,
    clips: int = 60,
    seed: int = 77,
    on_progress: Callable[[float | None, str], None] = lambda share, text: None,
) -> dict[str, Any]:
    """Ask about that many clips of each kind of size; {kind: counts, "different": answers}.

    `folder` holds the pair that the server at `url` has loaded.
    Raises KeyelabError without transformers or an answer of the server.
    """
    try:
        from keyelab.models.demo import hugging

        other = hugging.load(*(folder / name for name in NAMES))
    except ImportError as error:
        raise KeyelabError(
            f"expected torch and transformers for a comparison, found no {error.name}",
            "pip install 'keyelab[train]'",
        ) from None
    import numpy

    rng = numpy.random.default_rng(seed)
    found: dict[str, Any] = {"different": []}
    for kind, sizes in SIZES.items():
        rows = found[kind] = {"asked": 0, "same answer": 0, "same tokens": 0, "both right": 0}
        for number in range(clips):
            parts, truth = _message(rng, sizes[number % len(sizes)], number)
            ours, ours_tokens = other.answer(parts)
            theirs, tokens = _served(url, parts)
            rows["asked"] += 1
            rows["same answer"] += ours == theirs
            rows["same tokens"] += ours_tokens == tokens
            rows["both right"] += truth == ours == theirs
            if (ours, ours_tokens) != (theirs, tokens):
                size = sizes[number % len(sizes)]
                found["different"].append([kind, size, truth, ours, theirs, ours_tokens, tokens])
            on_progress((number + 1) / clips, f"{kind}: {number + 1} of {clips}")
    return found


def _message(rng: Any, size: tuple[int, int], number: int) -> tuple[list[str | bytes], str]:
    """Texts and JPEG files of a new clip with a question, and the true answer."""
    import cv2

    from keyelab.models.demo import render, story, words

    frames = 1 if number % 10 == 9 else int(rng.integers(2, 17))
    canvas = 32 * -(-size[0] // 32), 32 * -(-size[1] // 32)
    clip = story.draw(rng, 1, frames, canvas)
    drawn = render.frames(clip, canvas, int(rng.integers(2**31)), "cpu")[0]
    parts: list[str | bytes] = []
    for place, picture in enumerate(drawn, 1):
        bgr = picture.permute(1, 2, 0).numpy().astype("uint8")[..., ::-1]
        if canvas != size:
            bgr = cv2.resize(bgr, size, interpolation=cv2.INTER_AREA)
        quality = [cv2.IMWRITE_JPEG_QUALITY, int(rng.integers(60, 96))]
        parts += [f"Frame {place}:", cv2.imencode(".jpg", bgr, quality)[1].tobytes()]
    truth = clip.truth[0]
    answers = (
        words.caption(**truth),
        words.colour_answer(truth["colour"], truth["then"]),
        truth["shape"],
    )
    which = number % 5 if number % 5 < 3 else 0
    return [*parts, _ASKED[which]], answers[which]


def _served(url: str, parts: list[str | bytes]) -> tuple[str, int]:
    content = [
        {"type": "text", "text": one}
        if isinstance(one, str)
        else {
            "type": "image_url",
            "image_url": {"url": "data:image/jpeg;base64," + base64.b64encode(one).decode()},
        }
        for one in parts
    ]
    body = {
        "messages": [{"role": "user", "content": content}],
        "temperature": 0,
        "max_tokens": 64,
        "cache_prompt": False,
    }
    try:
        reply = requests.post(f"{url}/v1/chat/completions", json=body, timeout=60)
        reply.raise_for_status()
    except requests.exceptions.RequestException as error:
        raise KeyelabError(
            f"expected an answer of {url}, found {type(error).__name__}",
            "start llama-server with the demo model there",
        ) from None
    said = reply.json()
    return said["choices"][0]["message"]["content"], said["usage"]["prompt_tokens"]


def main(argv: list[str] | None = None) -> int:
    """The command line; see --help."""
    wanted = argparse.ArgumentParser(prog="keyelab.models.demo.agree", description=__doc__)
    wanted.add_argument("url", help="a llama-server with the demo model: http://127.0.0.1:PORT")
    wanted.add_argument("--folder", type=Path, default=FOLDER, help="the pair of GGUF files it has")
    wanted.add_argument("--clips", type=int, default=60, help="of each kind of size")
    wanted.add_argument("--json", type=Path, help="write the result there too")
    given = wanted.parse_args(argv)
    try:
        found = compare(given.url, given.folder, clips=given.clips)
    except KeyelabError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    if given.json:
        write_json(given.json, found)
    for name, row in found.items():
        print(f"{name}: {json.dumps(row, ensure_ascii=False)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
