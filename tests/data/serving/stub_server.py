"""A stand-in for llama-server: same words, same answers, faults on request.

Faults come as JSON in GGML_STUB: health_503, props_503 (so many 503 answers first), status (for
everything but /health), exit (ends with it while loading), log (printed first), deaf (ignores
SIGINT and SIGTERM), silent_s (does not listen for so long), chatty (and logs meanwhile), spins (and
keeps a core busy), linger_s (port stays open),
shared (--reuse-port).
"""

import argparse
import json
import os
import signal
import socket
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

FAULTS = json.loads(os.environ.get("GGML_STUB", "{}"))
HELP = Path(__file__).with_name("help.txt")
LOADING = {"error": {"code": 503, "message": "Loading model", "type": "unavailable_error"}}


def main() -> None:
    if sys.argv[1:] in (["--help"], ["--list-devices"]):
        print(HELP.read_text() if sys.argv[1:] == ["--help"] else "Available devices:")
        return
    parser = argparse.ArgumentParser()
    for name in ("host", "port", "alias", "model", "mmproj", "ctx-size", "parallel"):
        parser.add_argument(f"--{name}", default="")
    options, _ = parser.parse_known_args()
    print(FAULTS.get("log", "0.00.001.000 I srv  load_model: loading model"), flush=True)
    started = time.monotonic()
    if "exit" in FAULTS:
        sys.exit(FAULTS["exit"])
    if FAULTS.get("deaf"):
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    else:
        signal.signal(signal.SIGINT, stop)
        signal.signal(signal.SIGTERM, stop)
    while time.monotonic() < started + FAULTS.get("silent_s", 0):
        if FAULTS.get("chatty"):
            print("0.00.001.000 I load_tensors: ...", flush=True)
        if not FAULTS.get("spins"):
            time.sleep(0.1)
    Handler.options = options
    Handler.left = {"/health": FAULTS.get("health_503", 0), "/props": FAULTS.get("props_503", 0)}
    Server((options.host, int(options.port)), Handler).serve_forever()


def stop(number: int, frame: object) -> None:
    print("0.09.000.000 I srv    operator(): cleaning up before exit...", flush=True)
    time.sleep(FAULTS.get("linger_s", 0))
    os._exit(0)


class Server(ThreadingHTTPServer):
    def server_bind(self) -> None:
        if FAULTS.get("shared"):
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        super().server_bind()


class Handler(BaseHTTPRequestHandler):
    options = argparse.Namespace()
    left: ClassVar[dict[str, int]] = {}

    def do_GET(self) -> None:
        if self.left.get(self.path, 0) > 0:
            self.left[self.path] -= 1
            return self.answer(503, json.dumps(LOADING))
        if self.path == "/health":
            return self.answer(200, json.dumps({"status": "ok"}))
        if "status" in FAULTS:
            return self.answer(FAULTS["status"], json.dumps({"error": {"message": "no"}}))
        if self.path == "/props":
            slots = int(self.options.parallel or 1)
            return self.answer(
                200,
                json.dumps(
                    {
                        "default_generation_settings": {
                            "n_ctx": int(self.options.ctx_size or 0) // slots
                        },
                        "total_slots": slots,
                        "model_path": self.options.model,
                        "modalities": {"vision": bool(self.options.mmproj)},
                        "build_info": "b10019-0123456789ab",
                    }
                ),
            )
        models = {"data": [{"id": self.options.alias, "size": Path(__file__).stat().st_size}]}
        return self.answer(200, json.dumps(models))

    def answer(self, status: int, body: str) -> None:
        self.send_response(status)
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *words: object) -> None:
        return None


if __name__ == "__main__":
    main()
