#!/usr/bin/env python3
"""Serves nothing real: replays the article's K100_AI log and llama-server's HTTP shapes."""

import json
import os
import re
import signal
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

ANSWER = "A recorded answer: the card that would speak here is not in this machine."
ENTRIES = Path(__file__).with_name("entries.json")


def recorded(path: str) -> list[str]:
    """The lines of a file of the checkout that this runs in."""
    for folder in (Path.cwd(), *Path(__file__).resolve().parents):
        if (folder / path).exists():
            return (folder / path).read_text(encoding="utf-8").splitlines()
    sys.exit(f"expected {path} above {Path.cwd()} or this file")


def devices(log: list[str]) -> list[str]:
    return [f"  {m[1]}: {m[2]}" for m in (re.search(r"- (ROCm\d) : (.*)", x) for x in log) if m]


def option(words: list[str], *names: str, default: str = "") -> str:
    for name in names:
        if name in words:
            return words[words.index(name) + 1]
    return default


class Handler(BaseHTTPRequestHandler):
    """GET health, props, models; POST tokenize, completion, and chat completions, streamed."""

    server: "Fake"

    def do_GET(self) -> None:
        words, entries = self.server.words, self.server.entries
        alias = option(words, "-a", "--alias")
        n_ctx = int(option(words, "-c", "--ctx-size", default="0")) or 262144
        if self.path == "/health":
            self._json({"status": "ok"})
        elif self.path == "/props":
            self._json(
                {
                    "default_generation_settings": {"n_ctx": n_ctx},
                    "total_slots": int(option(words, "-np", "--parallel", default="4")),
                    "model_alias": alias,
                    "model_path": option(words, "-m", "--model"),
                    "modalities": {"vision": "--mmproj" in words, "audio": False, "video": False},
                    "build_info": build_info(entries),
                    "chat_template": "{{ messages }}",
                }
            )
        elif self.path == "/v1/models":
            self._json({"object": "list", "data": [{"id": alias, "meta": {"n_ctx": n_ctx}}]})
        else:
            self._json({"error": {"message": "File Not Found", "type": "not_found_error"}}, 404)

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path == "/tokenize":
            self._json({"tokens": [int(number) for number in request["content"].split()]})
            return
        if self.path == "/completion":
            tokens = list(range(request["n_predict"]))
            self._json({"content": ANSWER, "tokens": tokens, "stop": True})
            return
        if self.path != "/v1/chat/completions":
            self._json({"error": {"message": "File Not Found", "type": "not_found_error"}}, 404)
            return
        if not request.get("stream") or request.get("max_tokens") == 1:
            self._json(short(request))  # the log's task is the video's
            return
        for line in self.server.task_lines:
            print(line, flush=True)
        usage = {"prompt_tokens": 11995, "completion_tokens": 1703, "total_tokens": 13698}
        timings = {
            "cache_n": 0, "prompt_n": 11995, "prompt_ms": 140567.49, "prompt_per_second": 85.33,
            "predicted_n": 1703, "predicted_ms": 494667.69, "predicted_per_second": 3.44,
        }  # fmt: skip
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        self._event({"choices": [{"index": 0, "delta": {"role": "assistant", "content": None}}]})
        for word in ANSWER.split(" "):
            self._event({"choices": [{"index": 0, "delta": {"content": word + " "}}]})
        self._event({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
        self._event({"choices": [], "usage": usage, "timings": timings, "model": request["model"]})
        self.wfile.write(b"data: [DONE]\n\n")

    def log_message(self, format: str, *args: object) -> None:
        """The replayed log is all that is printed."""

    def _event(self, content: dict) -> None:
        self.wfile.write(f"data: {json.dumps(content)}\n\n".encode())
        self.wfile.flush()

    def _json(self, content: dict, status: int = 200) -> None:
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class Fake(ThreadingHTTPServer):
    daemon_threads = True
    words: list[str]
    entries: dict[str, str]
    task_lines: list[str]


def short(request: dict) -> dict:
    """A whole answer, signed so that it passes for nobody's; 1,197 tokens a picture, as the log."""
    parts = [part for message in request["messages"] for part in message["content"]]
    pictures = sum(isinstance(part, dict) and part["type"] == "image_url" for part in parts)
    prompt = 25 + 1197 * pictures
    message = {"role": "assistant", "content": ANSWER}
    return {
        "object": "chat.completion", "model": request["model"], "system_fingerprint": "recorded",
        "choices": [{"index": 0, "finish_reason": "stop", "message": message}],
        "usage": {"prompt_tokens": prompt, "completion_tokens": 1, "total_tokens": prompt + 1},
    }  # fmt: skip


def build_info(entries: dict[str, str]) -> str:
    return f"b{entries['LLAMA_BUILD_NUMBER']}-{entries['LLAMA_BUILD_COMMIT']}"


def main(words: list[str]) -> None:
    entries = json.loads(ENTRIES.read_text())
    log = recorded("keyelab/perf/data/article_server.log")
    if words == ["--version"]:
        print(f"version: {entries['LLAMA_BUILD_NUMBER']} ({entries['LLAMA_BUILD_COMMIT']})")
    elif words == ["--help"]:
        print("\n".join(recorded("tests/data/serving/help/b10019.txt")))
    elif words == ["--list-devices"]:
        print("Available devices:\n" + "\n".join(devices(log)))
    elif Path(sys.argv[0]).name == "test-backend-ops":
        asked = option(words, "-o").split(",")
        for line in recorded("tests/fakes/recorded/test-backend-ops-h200.txt"):
            case = re.match(r"  ([A-Z0-9_]+)\(", line)
            if case is None or case[1] in asked:
                print(line.replace(": OK", ": SUPPORTED") if "support" in words else line)
    elif Path(sys.argv[0]).name != "llama-server":
        sys.exit(f"{Path(sys.argv[0]).name}: nothing is recorded of it")
    else:
        serve(words, entries, log)


def serve(words: list[str], entries: dict[str, str], log: list[str]) -> None:
    start = next(i for i, line in enumerate(log) if "listening on" in line)
    first = next(i for i, line in enumerate(log) if "task 292" in line)
    last = max(i for i, line in enumerate(log) if "task 292" in line)
    host, port = option(words, "--host", default="127.0.0.1"), int(option(words, "--port"))
    projector = option(words, "-mm", "--mmproj")
    server = Fake((host, port), Handler)
    server.words, server.entries = words, entries
    server.task_lines = log[first : last + 1]
    if option(words, "-a", "--alias"):  # the server of 06_serve, not one of 05_build's questions
        time.sleep(float(os.environ.get("GGML_FAKE_LOAD_S", "0")))
    for line in log[: start + 1]:
        line = line.replace("http://0.0.0.0:8082", f"http://{host}:{port}")
        print(re.sub(r"'/opt/models/\S+/mmproj\S+'", f"'{projector}'", line), flush=True)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: os._exit(0))
    server.serve_forever()


if __name__ == "__main__":
    main(sys.argv[1:])
