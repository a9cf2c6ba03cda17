from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest

from keyelab.serving import quiz
from keyelab.serving.quiz import Asked, Reply
from keyelab.serving.state import ServerState

BUILD = "b10019-0123456789ab"


@pytest.fixture
def answering() -> Iterator[Callable[[int, Any], tuple[ServerState, list[dict[str, Any]]]]]:
    """A server that gives one answer to everything, and what it was asked."""
    servers = []

    def start(status: int, body: Any) -> tuple[ServerState, list[dict[str, Any]]]:
        asked: list[dict[str, Any]] = []

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                asked.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                self.send_response(status)
                self.end_headers()
                self.wfile.write(body if isinstance(body, bytes) else json.dumps(body).encode())

            def log_message(self, *words: object) -> None:
                return None

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        servers.append(server)
        Thread(target=server.serve_forever, daemon=True).start()
        number = server.server_address[1]
        state = ServerState(
            pid=1, argv=[], key="", url=f"http://127.0.0.1:{number}", host="127.0.0.1",
            port=number, log="", started="", run_dir="", file="",
        )  # fmt: skip
        return state, asked

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def answer(text: str, **more: Any) -> dict[str, Any]:
    return {"choices": [{"message": {"role": "assistant", "content": text}}], **more}


@pytest.mark.parametrize(
    ("text", "expected", "right"),
    [
        ("red", "red", True),
        ("The shape is Red.", "red", True),
        ("红色", "red", True),
        ("这是一个蓝色的圆", "blue", True),
        ("blue", "red", False),
        ("red, or blue", "red", False),
        ("a blue disc, centered and rendered on a dark ground", "blue", True),
        ("It is reddish.", "red", True),
        ("centered", "red", False),
        ("", "red", False),
        ("3137", "3137", True),
        ("The result is 3,137.", "3137", True),
        ("31370", "3137", False),
        ("37*89 = 3293, minus 156", "3137", False),
    ],
)
def test_an_answer_is_right_when_it_names_the_expected_and_no_other(
    text: str, expected: str, right: bool
) -> None:
    assert quiz.is_right(text, expected) is right


def test_two_different_pictures_are_shown_so_that_one_answer_cannot_be_right_twice(
    make_plan: Any, answering: Any
) -> None:
    state, bodies = answering(200, answer("red"))
    asked = quiz.ask(make_plan(), state, calculates=False)
    assert [one.right for one in asked] == [True, False]
    urls = [body["messages"][0]["content"][0]["image_url"]["url"] for body in bodies]
    assert len(set(urls)) == 2
    assert {body["temperature"] for body in bodies} == {0}


def test_only_a_model_that_calculates_is_asked_the_sum(make_plan: Any, answering: Any) -> None:
    state, _ = answering(200, answer("3137"))
    asked = quiz.ask(make_plan(), state, calculates=True)
    assert [one.name for one in asked] == ["red picture", "blue picture", "sum"]
    assert asked[-1].right


def test_reasoning_is_no_answer(make_plan: Any, answering: Any) -> None:
    state, _ = answering(200, answer("<think>blue? no</think>\nred"))
    assert quiz.ask(make_plan(), state, calculates=False)[0].reply.text == "red"
    state, _ = answering(200, answer("<think>red, I think, but"))
    assert not quiz.ask(make_plan(), state, calculates=False)[0].right


@pytest.mark.parametrize(
    ("status", "body", "said"),
    [
        (500, {"error": {"message": "broken"}}, "HTTP 500"),
        (200, {"error": {"message": "broken"}}, "no answer: KeyError"),
        (200, b"no JSON", "no answer: JSONDecodeError"),
    ],
)
def test_an_error_is_a_wrong_answer_and_is_told(
    make_plan: Any, answering: Any, status: int, body: Any, said: str
) -> None:
    state, _ = answering(status, body)
    asked = quiz.ask(make_plan(), state, calculates=False)
    (verdict, _) = quiz.checks(asked, BUILD)
    assert (verdict.status, said in verdict.found) == ("failed", True)


@pytest.mark.parametrize(
    ("signed", "text", "status"),
    [
        (BUILD, "red", "ok"),
        ("", "red", "ok"),  # b10019 and later sign, a proxy may take it away
        (BUILD, "blue", "failed"),
        ("recorded", "red", "unknown"),
        ("recorded", "blue", "unknown"),
    ],
)
def test_an_answer_that_another_build_signed_proves_nothing(
    signed: str, text: str, status: str
) -> None:
    reply = Reply(text, signed)
    asked = Asked("red picture", "?", 1, reply, "red", quiz.is_right(text, "red"))
    assert quiz.checks([asked], BUILD)[0].status == status
