"""Proxy before an S3 server whose faults depend on seed, method, path and number of the attempt."""

import hashlib
import http.client
import re
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing, nullcontext
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

FAULTS = ("status 500", "status 503", "slow", "truncated", "lost answer")
SLOW_S = 0.3
SECRET = "loopback-secret-that-must-not-show"
_COMPLAINT = b"<Error><Code>X</Code><Message>secret-of-the-service</Message></Error>"


@dataclass
class Traffic:
    faults: Counter[str] = field(default_factory=Counter)  # number by kind
    answered: list[tuple[str, str, int]] = field(default_factory=list)  # complete answers
    headers: set[str] = field(default_factory=set)  # of all requests, "name: value"


class FaultyProxy:
    """Proxy that forwards requests, except for the faults of `choose(method, path, attempt)`."""

    def __init__(self, server: str, choose: Callable[[str, str, int], str | None]) -> None:
        self.traffic = Traffic()
        self._server, self._choose = urlsplit(server).netloc, choose
        self._attempts: Counter[tuple[str, str]] = Counter()
        self._lock, self._one_put = threading.Lock(), threading.Lock()
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_any(self) -> None:
                proxy._handle(self)

            do_GET = do_PUT = do_HEAD = do_DELETE = do_POST = handle_any  # noqa: N815

            def log_message(self, *arguments: object) -> None:
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}"
        self._thread = threading.Thread(target=self._http.serve_forever, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    def paths_put(self) -> list[str]:
        return [path for method, path, status in self.traffic.answered
                if method == "PUT" and status == 200]  # fmt: skip

    def _handle(self, request: BaseHTTPRequestHandler) -> None:
        method, path = request.command, request.path
        body = request.rfile.read(int(request.headers.get("Content-Length") or 0))
        with self._lock:
            attempt = self._attempts[method, path]
            self._attempts[method, path] += 1
            fault = self._choose(method, path, attempt)
            self.traffic.faults[fault or "none"] += 1
            self.traffic.headers |= {f"{name}: {value}" for name, value in request.headers.items()}
        if fault is not None and fault.startswith("status "):
            self._answer(request, int(fault.split()[1]), {}, _COMPLAINT)
            return
        if fault == "no conditions":
            del request.headers["If-None-Match"]
        if fault == "slow":
            time.sleep(SLOW_S)
        status, headers, content = self._forward(request, body)
        if fault == "lost answer":
            self._hang_up(request)
        elif fault == "truncated" and method == "GET" and len(content) > 1:
            self._answer(request, status, headers, content, whole=False)
            self._hang_up(request)
        else:
            self._answer(request, status, headers, content)
            with self._lock:
                self.traffic.answered.append((method, path, status))

    def _forward(
        self, request: BaseHTTPRequestHandler, body: bytes
    ) -> tuple[int, dict[str, str], bytes]:
        # A service's conditional put is atomic, but that of moto is not.
        alone = self._one_put if request.command == "PUT" else nullcontext()
        connection = http.client.HTTPConnection(self._server, timeout=30)
        with alone, closing(connection):
            connection.request(request.command, request.path, body, dict(request.headers.items()))
            response = connection.getresponse()
            return response.status, dict(response.getheaders()), response.read()

    @staticmethod
    def _answer(
        request: BaseHTTPRequestHandler, status: int, headers: dict[str, str], content: bytes,
        *, whole: bool = True,
    ) -> None:  # fmt: skip
        length = headers.get("Content-Length") if request.command == "HEAD" else str(len(content))
        request.send_response_only(status)
        for name, value in headers.items():
            if name.lower() not in ("content-length", "transfer-encoding", "connection"):
                request.send_header(name, value)
        request.send_header("Content-Length", length or "0")
        request.end_headers()
        if request.command != "HEAD":
            request.wfile.write(content if whole else content[: len(content) // 2])
        request.wfile.flush()

    @staticmethod
    def _hang_up(request: BaseHTTPRequestHandler) -> None:
        request.close_connection = True
        request.connection.shutdown(socket.SHUT_RDWR)


# Parts of paths that differ between runs: numbered buckets, and random names of stores.
_OF_THIS_RUN = re.compile(r"bucket-\d+|[0-9a-f]{32}")


def seeded(seed: int, share: float) -> Callable[..., str | None]:
    """Return a function that chooses a fault for a `share` of requests, each kind equally often."""

    def choose(method: str, path: str, attempt: int) -> str | None:
        lasting = _OF_THIS_RUN.sub("", path)
        digest = hashlib.sha256(f"{seed} {method} {lasting} {attempt}".encode()).digest()
        number = int.from_bytes(digest[:8], "little") / 2**64
        return FAULTS[int(number / share * len(FAULTS))] if number < share else None

    return choose
