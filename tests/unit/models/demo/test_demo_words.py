"""The words the demo model was trained on are those that clips and tests expect of it."""

from __future__ import annotations

import itertools

from keyelab.models.demo import words
from keyelab.video import demo, exam


def test_clips_and_training_call_things_by_the_same_names() -> None:
    assert words.COLOURS == demo.COLOURS
    assert words.SHAPES == demo.SHAPES
    assert words.MOTIONS == demo.MOTIONS


def test_a_caption_is_the_same_sentence_in_training_and_in_clips() -> None:
    for colour, shape, motion in itertools.product(words.COLOURS, words.SHAPES, words.MOTIONS):
        events = ["", *words.COLOURS, *(one for one in words.MOTIONS if one != "still")]
        for then in events:
            if then not in (colour, motion):
                story = demo.Story(colour, shape, motion, then)
                assert words.caption(colour, shape, motion, then) == story.caption


def test_a_single_picture_has_no_motion() -> None:
    assert words.caption("red", "circle", "") == "a red circle"
    assert words.motion_answer("") == "unknown"


def test_the_exam_asks_what_training_asked() -> None:
    assert exam.CAPTION in words.CAPTION
    assert exam.COUNT in words.COUNT
    assert exam.CHINESE["caption"] in words.CAPTION
    assert exam.CHINESE["colour"] in words.COLOUR
    assert exam.CHINESE["shape"] in words.SHAPE


def test_no_question_belongs_to_two_tasks() -> None:
    tasks = [
        words.CAPTION, words.COLOUR, words.SHAPE, words.MOTION, words.COUNT, words.NUMBER,
        words.OFF_TOPIC,
    ]  # fmt: skip
    every = [question.lower().rstrip("?.。？") for task in tasks for question in set(task)]
    assert {one for one in every if every.count(one) > 1} <= {
        question.lower().rstrip("?.。？") for question in words.CAPTION
    }
