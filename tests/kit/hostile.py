"""Servers of a few lines that send what no server should."""

from __future__ import annotations

import contextlib
import ctypes
import socket
import ssl
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

_GREETING = struct.Struct("<B7sI8sxHBHHB10x13s")
_PROTOCOL = 10
_UTF8MB4, _AUTOCOMMIT = 45, 0x0002
_TEXT = 0xFD  # VAR_STRING
# PROTOCOL_41, TRANSACTIONS, SECURE_CONNECTION, PLUGIN_AUTH; LOCAL_FILES, SSL.
_CAPABLE = 0x0008_A200
LOCAL_FILES, _SSL = 0x80, 0x800
NONCE = bytes(range(1, 21))
CLEARTEXT, MD5 = 3, 5  # AuthenticationCleartextPassword, AuthenticationMD5Password
OK = b"\0\0\0\x02\0\0\0"
EOF = b"\xfe\0\0\x02\0"


# An account that other programs than a database's run as; Debian has its name as well.
STRANGER = 13
_LISTEN = """
import os, socket, sys
os.setgroups([])
os.setgid({uid})
os.setuid({uid})
listener = socket.socket(socket.AF_UNIX)
listener.bind({path!r})
if {path!r}[0] != chr(0):
    os.chmod({path!r}, 0o777)
listener.listen()
socket.send_fds(socket.socket(fileno=0), [b"x"], [listener.fileno()])
"""


@contextlib.contextmanager
def hostile(
    answer: Callable[[socket.socket], None],
    clients: int = 1,
    *,
    at_once: int = 1,
    host: str = "127.0.0.1",
    uid: int | None = None,
) -> Iterator[int]:
    """Yield the port of a server whose *clients* are answered so, one by one.

    at_once: so many threads answer, one client after the other each.
    uid: the account that it is, None for this process's own.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    dual = host == "::"  # takes IPv4 as well
    listener = socket.create_server((host, 0), family=family, dualstack_ipv6=dual)
    with _serving(listener, answer, clients, uid, at_once):
        yield listener.getsockname()[1]


@contextlib.contextmanager
def hostile_socket(
    path: Path | str,
    answer: Callable[[socket.socket], None],
    uid: int,
    clients: int = 1,
) -> Iterator[None]:
    """Answer at the Unix socket *path*, which account *uid* makes and listens at."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        code = _LISTEN.format(uid=uid, path=str(path))
        command = [sys.executable, "-c", code]
        subprocess.run(command, stdin=theirs.fileno(), check=True)
        _, (descriptor,), _, _ = socket.recv_fds(ours, 1, 1)
    with _serving(socket.socket(fileno=descriptor), answer, clients, None):
        yield


@contextlib.contextmanager
def _serving(
    listener: socket.socket,
    answer: Callable[[socket.socket], None],
    clients: int,
    uid: int | None,
    at_once: int = 1,
) -> Iterator[None]:
    def serve() -> None:
        if uid is not None:
            # Of this thread alone; whose a socket is follows from it (setfsuid(2)).
            ctypes.CDLL(None).setfsuid(uid)
        for _ in range(clients):
            with contextlib.suppress(OSError):
                client, _ = listener.accept()
                with client, contextlib.suppress(OSError):
                    answer(client)

    threads = [threading.Thread(target=serve) for _ in range(at_once)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        for thread in threads:
            thread.join()


@dataclass
class MysqlPeer:
    """The server's end of a connection in MySQL's protocol.

    heard: what the client sent, over TLS or not.  flags: the client's capabilities.
    """

    wire: socket.socket
    heard: bytearray = field(default_factory=bytearray)
    flags: int = 0
    _sequence: int = 0

    def close(self) -> None:
        """Hang up."""
        self.wire.close()

    def send(self, payload: bytes) -> None:
        """Send a packet."""
        head = len(payload).to_bytes(3, "little") + bytes((self._sequence,))
        self._sequence = (self._sequence + 1) % 256
        self.wire.sendall(head + payload)

    def receive(self) -> bytes:
        """Return the client's next packet; raise ConnectionError at the end."""
        head = self._exactly(4)
        self._sequence = (head[3] + 1) % 256
        return self._exactly(int.from_bytes(head[:3], "little"))

    def greet(self, plugin: str, tls: ssl.SSLContext | None = None) -> bytes:
        """Begin the login, and TLS if the client likes; return its answer."""
        capable = _CAPABLE | LOCAL_FILES | (_SSL if tls else 0)
        greeting = _GREETING.pack(
            _PROTOCOL,
            b"8.4.0\0",
            7,
            NONCE[:8],
            capable & 0xFFFF,
            _UTF8MB4,
            _AUTOCOMMIT,
            capable >> 16,
            len(NONCE) + 1,
            NONCE[8:],
        )
        greeting = greeting.replace(b"8.4.0\0\0", b"8.4.0\0", 1)
        self.send(greeting + plugin.encode() + b"\0")
        answer = self.receive()
        if tls and len(answer) == 32:
            self.wire = tls.wrap_socket(self.wire, server_side=True)
            answer = self.receive()
        self.flags = int.from_bytes(answer[:4], "little")
        return answer

    def switch(self, plugin: str) -> bytes:
        """Ask for another way to log in; return the client's answer."""
        self.send(b"\xfe" + plugin.encode() + b"\0" + NONCE + b"\0")
        return self.receive()

    def columns(self, *types: int) -> None:
        """Begin to answer with rows whose columns have these types, or one of text."""
        types = types or (_TEXT,)
        self.send(bytes((len(types),)))
        for kind in types:
            fixed = struct.pack("<BHIBHB2x", 12, _UTF8MB4, 0, kind, 0, 0)
            self.send(b"\x03def" + bytes(3) + b"\x01a\0" + fixed)
        self.send(EOF)

    def _exactly(self, size: int) -> bytes:
        data = _exactly(self.wire, size)
        self.heard += data
        return data


@dataclass
class PgPeer:
    """The server's end of a connection in PostgreSQL's protocol, without TLS.

    heard: the messages that the client sent, each a type and its content.
    """

    wire: socket.socket
    heard: list[tuple[bytes, bytes]] = field(default_factory=list)

    def close(self) -> None:
        """Hang up."""
        self.wire.close()

    def send(self, *messages: tuple[bytes, bytes]) -> None:
        """Send messages, each a type and its content."""
        for kind, content in messages:
            self.wire.sendall(kind + struct.pack("!i", len(content) + 4) + content)

    def start(self) -> None:
        """Take the client's first message; refuse encryption."""
        while True:
            size, code = struct.unpack("!ii", self._exactly(8))
            self._exactly(size - 8)
            if code == 3 << 16:
                return
            self.wire.sendall(b"N")

    def greet(
        self, *, date_style: str = "ISO, MDY", server_version: str = "15.0", **more: str
    ) -> None:
        """Let the client in without asking for anything; refuse encryption.

        more: parameters that are reported as well.
        """
        self.start()
        settings = {
            "client_encoding": "UTF8",
            "DateStyle": date_style,
            "server_version": server_version,
            "standard_conforming_strings": "on",
            **more,
        }
        self.send((b"R", bytes(4)), (b"K", bytes(8)))
        for name, value in settings.items():
            self.send((b"S", f"{name}\0{value}\0".encode()))
        self.ready()

    def ask(self, method: int, data: bytes = b"") -> None:
        """Ask for a login by that method, and for what the client says to it."""
        self.start()
        self.send((b"R", struct.pack("!i", method) + data))
        self.receive()

    def ready(self) -> None:
        """Say that the client may go on, with no transaction open."""
        self.send((b"Z", b"I"))

    def receive(self) -> tuple[bytes, bytes]:
        """Return the client's next message; raise ConnectionError at the end."""
        kind, size = struct.unpack("!ci", self._exactly(5))
        self.heard.append((kind, self._exactly(size - 4)))
        return self.heard[-1]

    def obey(self, until: bytes) -> None:
        """Answer each statement with no rows, or what EXPLAIN says, *until* one."""
        while True:
            kind, content = self.receive()
            if until in content:
                return
            if kind in (b"Q", b"S"):
                if kind == b"S":
                    self.send((b"1", b""), (b"2", b""))
                if not content.startswith(b"BEGIN"):
                    self.rows(*[b"Seq Scan on x"] * (b"explain" in content))
                self.send((b"C", b"SELECT 0\0"))
                self.ready()

    def rows(self, *rows: bytes) -> None:
        """Send rows of one column of text, without their end."""
        column = b"a\0" + struct.pack("!ihihih", 0, 0, 25, -1, -1, 0)
        self.send((b"T", struct.pack("!h", 1) + column))
        for row in rows:
            self.send((b"D", struct.pack("!hi", 1, len(row)) + row))

    def _exactly(self, size: int) -> bytes:
        return _exactly(self.wire, size)


def asks(method: int, heard: list[bytes]) -> Callable[[socket.socket], None]:
    """Return the PostgreSQL server that asks so, and notes what it hears."""

    def answer(client: socket.socket) -> None:
        client.settimeout(10)
        server = PgPeer(client)
        try:
            server.ask(method, b"salt" if method == MD5 else b"")
        finally:
            heard.extend(content for _, content in server.heard)

    return answer


def _exactly(wire: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        more = wire.recv(size - len(data))
        if not more:
            raise ConnectionError
        data += more
    return bytes(data)
