"""Servers of a few lines that send what no server should."""

from __future__ import annotations

import contextlib
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

_GREETING = struct.Struct("<B7sI8sxHBHHB10x13s")
_PROTOCOL = 10
_UTF8MB4, _AUTOCOMMIT = 45, 0x0002
# PROTOCOL_41, TRANSACTIONS, SECURE_CONNECTION, PLUGIN_AUTH; LOCAL_FILES, SSL.
_CAPABLE = 0x0008_A200
LOCAL_FILES, _SSL = 0x80, 0x800
NONCE = bytes(range(1, 21))
OK = b"\0\0\0\x02\0\0\0"
EOF = b"\xfe\0\0\x02\0"


@contextlib.contextmanager
def hostile(answer: Callable[[socket.socket], None], clients: int = 1) -> Iterator[int]:
    """Yield the port of a server whose *clients* are answered so, one by one."""

    def serve() -> None:
        for _ in range(clients):
            with contextlib.suppress(OSError):
                client, _ = listener.accept()
                with client, contextlib.suppress(OSError):
                    answer(client)

    listener = socket.create_server(("127.0.0.1", 0))
    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        with contextlib.suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        listener.close()
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

    def rows(self, *rows: bytes) -> None:
        """Answer a query with rows of one column of text."""
        self.send(b"\x01")
        column = b"\x03def" + bytes(4) + b"\x01a\0\x0c\x2d\0\xff\xff\0\0\xfd\0\0\0\0\0"
        self.send(column)
        self.send(EOF)
        for row in rows:
            self.send(row)
        self.send(EOF)

    def _exactly(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            more = self.wire.recv(size - len(data))
            if not more:
                raise ConnectionError
            data += more
        self.heard += data
        return bytes(data)
