"""Servers on loopback: an S3 that the tests fill, a web server, and a proxy that counts, cuts and refuses."""

from __future__ import annotations

import contextlib
import http.server
import json
import logging
import re
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from urllib.parse import unquote, urlsplit


@dataclass
class Request:
    """What a client asked for, and how much of the answer went through."""

    method: str
    path: str
    start: int | None
    stop: int | None
    answered: int = 0


@dataclass
class Proxy:
    """Passes on what clients and a server say to each other.

    Attributes:
        upstream: where the server is.
        requests: what was asked for.
        cut_after: bytes of an answer to a GET after which the connection is cut.
        cuts: how many times to do so.
        refusal: an answer to every request in place of the server's.
    """

    upstream: tuple[str, int]
    requests: list[Request] = field(default_factory=list)
    cut_after: int = 1 << 62
    cuts: int = 0
    refusal: bytes = b""

    def __post_init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        self._lock = threading.Lock()
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._socket.close()

    def gets(self) -> list[Request]:
        return [request for request in self.requests if request.method == "GET" and request.start is not None]

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._socket.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client, contextlib.suppress(OSError), socket.create_connection(self.upstream) as server:
            back = threading.Thread(target=self._answer, args=(server, client), daemon=True)
            back.start()
            while data := client.recv(1 << 16):
                for head in re.findall(rb"(?:GET|HEAD|PUT|POST) [^\r]+ HTTP/1.1\r\n.*?\r\n\r\n", data, re.DOTALL):
                    self._note(head.decode())
                if self.refusal:
                    client.sendall(self.refusal)
                    continue
                server.sendall(data)
            server.shutdown(socket.SHUT_WR)
            back.join()

    def _note(self, head: str) -> None:
        method, path, _ = head.split("\r\n")[0].split(" ")
        ranged = re.search(r"range: bytes=(\d+)-(\d+)", head, re.IGNORECASE)
        span = (int(ranged[1]), int(ranged[2]) + 1) if ranged else (None, None)
        self.requests.append(Request(method, path, *span))

    def _answer(self, server: socket.socket, client: socket.socket) -> None:
        sent = 0
        with contextlib.suppress(OSError):
            while data := server.recv(1 << 14):
                sent = len(data) if data.startswith(b"HTTP/1.1") else sent + len(data)
                if sent > self.cut_after and self._cuts():
                    client.sendall(data[: max(self.cut_after - sent, 0)])
                    client.shutdown(socket.SHUT_RDWR)
                    return
                client.sendall(data)

    def _cuts(self) -> bool:
        with self._lock:
            self.cuts -= 1
            return self.cuts >= 0


def refused(status: int, reason: str) -> bytes:
    """An answer of a server that refuses."""
    return f"HTTP/1.1 {status} {reason}\r\nContent-Length: 0\r\n\r\n".encode()


@contextlib.contextmanager
def proxy(host: str, port: int) -> Iterator[Proxy]:
    between = Proxy((host, port))
    try:
        yield between
    finally:
        between.close()


@contextlib.contextmanager
def s3_server() -> Iterator[tuple[str, int]]:
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        yield server.get_host_and_port()
    finally:
        server.stop()


class _Files(http.server.SimpleHTTPRequestHandler):
    """Files, and parts of files."""

    protocol_version = "HTTP/1.1"
    ranges = True

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_GET(self) -> None:
        path = Path(self.translate_path(self.path.partition("?")[0]))
        wanted = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        if not path.is_file():
            self.send_error(404)
            return
        size = path.stat().st_size
        start, last = 0, size - 1
        if wanted is None or not self.ranges:
            self.send_response(200)
        else:
            start, last = int(wanted[1]), min(int(wanted[2]), last)
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {start}-{last}/{size}")
        self.send_header("Content-Length", str(last + 1 - start))
        self.end_headers()
        with path.open("rb") as file:
            file.seek(start)
            self.wfile.write(file.read(last + 1 - start))


class _WholeFiles(_Files):
    ranges = False


@contextlib.contextmanager
def web_server(folder: Path, *, ranges: bool = True, hub: bool = False) -> Iterator[tuple[str, int]]:
    handler = partial(_Hub if hub else _Files if ranges else _WholeFiles, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield "127.0.0.1", server.server_address[1]
        server.shutdown()


class _Hub(_Files):
    """The part of the Hugging Face Hub's API that reading a dataset takes; the folder served is the dataset me/run."""

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        root = Path(self.directory)
        if found := re.fullmatch(r"/api/datasets/me/run/tree/main/?(.*)", unquote(url.path)):
            folder = root / found[1]
            every = folder.rglob("*") if "recursive=true" in url.query.lower() else folder.glob("*")
            self._json([_listed(path, root) for path in every], found=folder.is_dir())
        elif found := re.fullmatch(r"/datasets/me/run/resolve/main/(.*)", url.path):
            self.path = found[1]
            super().do_GET()
        else:
            self._json({"id": "me/run", "sha": "0" * 40, "tags": []}, found=url.path == "/api/datasets/me/run")

    def _json(self, answer: object, *, found: bool) -> None:
        content = json.dumps(answer if found else {"error": "nothing there"}).encode()
        self.send_response(200 if found else 404)
        if not found:
            self.send_header("X-Error-Code", "EntryNotFound" if "/tree/" in self.path else "RepoNotFound")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


def _listed(path: Path, root: Path) -> dict[str, object]:
    kind, size = ("directory", 0) if path.is_dir() else ("file", path.stat().st_size)
    return {"type": kind, "oid": "0" * 40, "size": size, "path": str(path.relative_to(root))}
