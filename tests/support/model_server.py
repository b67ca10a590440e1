"""A server that speaks the OpenAI chat interface, on a real socket: it answers by a script and keeps what it was asked.

The script is a list of replies; each request takes the next one, and the last stands for all that follow.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True)
class Reply:
    """One answer.

    Attributes:
        status, body, headers: what is sent.
        cut: send only so many bytes of the body, then close the connection.
        silent: send nothing until the server is closed.
    """

    status: int = 200
    body: bytes = b""
    headers: tuple[tuple[str, str], ...] = ()
    cut: int | None = None
    silent: bool = False


def completion(content: str | None, **changes: Any) -> Reply:
    """Return a chat completion with one choice."""
    message = {"role": "assistant", "content": content, "refusal": changes.pop("refusal", None)}
    choice = {"index": 0, "message": message, "finish_reason": changes.pop("finish_reason", "stop"), "logprobs": None}
    body = {"id": "c1", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice], **changes}
    return Reply(body=json.dumps(body).encode())


@dataclass
class ModelServer:
    """The running server.

    Attributes:
        url: its base URL.
        script: the replies that are left.
        asked: the bodies of all requests so far; keys: their Authorization headers.
    """

    script: list[Reply]
    url: str = ""
    asked: list[dict[str, Any]] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    closing: threading.Event = field(default_factory=threading.Event)

    def take(self, body: bytes, key: str) -> Reply:
        """Keep a request and return its reply."""
        self.asked.append(json.loads(body))
        self.keys.append(key)
        return self.script.pop(0) if len(self.script) > 1 else self.script[0]


@contextmanager
def model_server(script: Sequence[Reply]) -> Iterator[ModelServer]:
    """Serve a script on a free port."""
    served = ModelServer(list(script))

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            reply = served.take(body, self.headers.get("authorization", ""))
            if reply.silent:
                served.closing.wait()
                self.close_connection = True
                return
            self.send_response(reply.status)
            for name, value in (("content-type", "application/json"), *reply.headers):
                self.send_header(name, value)
            self.send_header("content-length", str(len(reply.body)))
            self.end_headers()
            self.wfile.write(reply.body[: reply.cut])
            if reply.cut is not None:
                self.close_connection = True

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_: object) -> None:
            """Say nothing of clients that have read enough."""

    server = Server(("127.0.0.1", 0), Handler)
    served.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield served
    finally:
        served.closing.set()
        server.shutdown()
        thread.join()
        server.server_close()
