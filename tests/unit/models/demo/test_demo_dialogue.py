"""Training dialogues are, token for token, what llama-server makes of a request."""

from __future__ import annotations

import gguf
import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keyelab.models.demo import data, tokenizer
from keyelab.models.demo.dialogue import Writer, group
from keyelab.models.demo.tokenizer import Tokenizer
from keyelab.models.fetch import PACKAGED

IDS_OF_A_PICTURE = 9


@pytest.fixture(scope="module")
def known() -> Tokenizer:
    return tokenizer.build()


@pytest.fixture(scope="module")
def packaged() -> dict[str, object]:
    reader = gguf.GGUFReader(PACKAGED / "keyelab-tiny-f16.gguf")
    return {name: field.contents() for name, field in reader.fields.items()}


def test_training_the_tokenizer_again_gives_the_packaged_one(
    known: Tokenizer, packaged: dict[str, object]
) -> None:
    assert known.tokens() == packaged["tokenizer.ggml.tokens"]
    assert known.merges() == packaged["tokenizer.ggml.merges"]
    assert packaged["tokenizer.chat_template"] == tokenizer.CHAT_TEMPLATE
    assert known.ids["<|im_end|>"] == packaged["tokenizer.ggml.eos_token_id"]


@settings(max_examples=200, deadline=None)
@given(text=st.text(max_size=60))
def test_any_text_comes_back_from_its_tokens(text: str, known: Tokenizer) -> None:
    assert known.decode(list(known.encode(text))) == text


def test_an_answer_is_short(known: Tokenizer) -> None:
    assert len(known.encode("a red circle moves right")) <= 6


def test_a_message_is_the_string_of_the_chat_template(known: Tokenizer) -> None:
    writer = Writer(known, 2)
    writer.user(["Frame 1:", None, "Frame 2:", None, "What happens?", "Really?"])
    writer.answer("a red circle", "caption")
    picture = "<|vision_start|><|image_pad|><|image_pad|><|vision_end|>"
    assert known.decode(writer.ids) == (
        f"<|im_start|>user\nFrame 1:{picture}Frame 2:{picture}What happens?\nReally?<|im_end|>\n"
        "<|im_start|>assistant\na red circle<|im_end|>\n"
    )


def test_only_the_answer_is_learned(known: Tokenizer) -> None:
    writer = Writer(known, IDS_OF_A_PICTURE)
    writer.user([None, "What do you see?"])
    writer.answer("a red circle", "caption")
    batch = group([writer], (3, 3))
    assert known.decode(batch.wanted.tolist()) == "a red circle<|im_end|>"
    assert batch.tokens[0, batch.asked + 1].tolist() == batch.wanted.tolist()
    assert batch.tasks == ["caption"]


def test_a_picture_takes_as_many_positions_as_its_longer_side(known: Tokenizer) -> None:
    writer = Writer(known, 6)
    writer.user([None, "What?"])
    writer.answer("x", "caption")
    batch = group([writer], (3, 2))
    first = int(batch.places[0])
    time, row, column = (axis[0, first : first + 7] - first for axis in batch.positions)
    assert time.tolist() == [0, 0, 0, 0, 0, 0, 3]
    assert row.tolist() == [0, 0, 0, 1, 1, 1, 3]
    assert column.tolist() == [0, 1, 2, 0, 1, 2, 3]


def steps(known: Tokenizer, seed: int = 3) -> data.Steps:
    return data.Steps(known, seed, tokens=700, parts=2, most_frames=5, longest=512)


def test_a_step_has_the_same_data_whenever_it_is_drawn(known: Tokenizer) -> None:
    one, same = steps(known), steps(known)
    for number in (0, 5, 2):
        for part, again in zip(one[number], same[number], strict=True):
            assert (part.dialogues.tokens == again.dialogues.tokens).all()
            assert (part.dialogues.positions == again.dialogues.positions).all()
            assert (part.layout, part.size, part.seed) == (again.layout, again.size, again.seed)
            if part.clips and again.clips:
                assert numpy.array_equal(part.clips.xy, again.clips.xy)


def test_another_seed_or_step_has_other_data(known: Tokenizer) -> None:
    first = steps(known)[0][0].dialogues.tokens
    for other in (steps(known)[1][0], steps(known, 4)[0][0]):
        assert not numpy.array_equal(first, other.dialogues.tokens)


@pytest.mark.parametrize("kind", ["clips", "text", "deep", "deep clips"])
def test_every_kind_of_part_has_about_the_context_at_most(known: Tokenizer, kind: str) -> None:
    drawn = data.Steps(known, 1, tokens=1500, parts=1, longest=1024, fixed={"kind": kind})
    for number in range(10):
        (part,) = drawn[number]
        assert part.dialogues.tokens.shape[1] <= 1.05 * 1024
        assert (part.clips is None) == (kind in ("text", "deep"))
