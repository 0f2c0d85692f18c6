"""An OpenAI-compatible server on loopback whose every answer a test decides."""

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

__all__ = ["OpenAIServer", "answer", "openai_server", "refusal"]

type Reply = Callable[["_Handler"], None]


@dataclass
class OpenAIServer:
    """Replies in order, the last one for ever.

    Attributes:
        requests: (headers, body) of every request that came.
    """

    url: str
    replies: list[Reply]
    requests: list[tuple[dict[str, str], dict[str, Any]]] = field(default_factory=list)

    @property
    def body(self) -> dict[str, Any]:
        """The last request's body."""
        return self.requests[-1][1]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    serving: OpenAIServer

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        self.serving.requests.append((dict(self.headers), json.loads(body)))
        replies = self.serving.replies
        (replies.pop(0) if len(replies) > 1 else replies[0])(self)

    def send(
        self, status: int, body: bytes, length: int | None = None, retry_after: str = ""
    ) -> None:
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body) if length is None else length))
        if retry_after:
            self.send_header("retry-after", retry_after)
        self.end_headers()
        self.wfile.write(body)

    def hang_up(self) -> None:
        self.connection.shutdown(socket.SHUT_RDWR)
        self.close_connection = True

    def log_message(self, format: str, *_: Any) -> None:
        """Nothing on stderr."""


def answer(
    usage: dict[str, Any] | None, message: dict[str, Any] | None = None, n: int = 1
) -> Reply:
    """A chat completion."""
    told = {"role": "assistant", "content": "Twelve.", **(message or {})}
    choices = [{"index": i, "message": told, "finish_reason": "stop"} for i in range(n)]
    body: dict[str, Any] = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "whatever",
        "choices": choices,
    }
    if usage is not None:
        body["usage"] = usage
    return lambda handler: handler.send(200, json.dumps(body).encode())


def refusal(
    status: int, message: str = "no", code: str | None = None, retry_after: str = ""
) -> Reply:
    """OpenAI's error object."""
    body = json.dumps({"error": {"message": message, "type": "x", "param": None, "code": code}})
    return lambda handler: handler.send(status, body.encode(), retry_after=retry_after)


@contextmanager
def openai_server(*replies: Reply) -> Iterator[OpenAIServer]:
    """A server that replies so; its `url` is what clients call `base_url`."""

    class Handler(_Handler):
        serving = OpenAIServer("", [*replies])

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Handler.serving.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield Handler.serving
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
