"""Answers as llama-server does to /health, /tokenize and /completion; continues what repeats.

STUB in the environment is JSON: wrong_at (length at which the card answers otherwise), from
(first wrong token), dies (the card's server ends while loading), dies_at (… at that question),
lost (nobody continues the pattern).
"""

import json
import os
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer

ANSWER, REPEATS = 16, 4
FAULTS = json.loads(os.environ.get("STUB", "{}"))
CARD = "--device" not in sys.argv


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.say({"status": "ok"})

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path == "/tokenize":
            self.say({"tokens": [int(number) for number in body["content"].split()]})
            return
        prompt = body["prompt"]
        length = len(prompt) + ANSWER + 1
        if CARD and FAULTS.get("dies_at") == length:
            print("ERROR: HIP kernel flash_attn_tile has no device code", flush=True)
            os._exit(134)
        row = prompt[: length // REPEATS]
        tokens = (row * REPEATS)[len(prompt) : len(prompt) + body["n_predict"]]
        if FAULTS.get("lost"):
            tokens = [-2] * ANSWER
        if CARD and FAULTS.get("wrong_at") == length:
            tokens[FAULTS.get("from", 0)] = -1
        self.say({"content": " ".join(map(str, tokens)), "tokens": tokens})

    def say(self, content):
        body = json.dumps(content).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


if CARD and FAULTS.get("dies"):
    sys.exit("ggml_cuda_host_malloc: failed to allocate 57000 MiB: out of memory")
if any(name.startswith("LLAMA_") for name in os.environ):
    sys.exit("flags from the environment")
print(" ".join(sys.argv[1:]), flush=True)
HTTPServer(("127.0.0.1", int(sys.argv[sys.argv.index("--port") + 1])), Handler).serve_forever()
