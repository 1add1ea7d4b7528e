"""A relay before a server, which writes down what its clients say."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator


@contextlib.contextmanager
def overheard(
    server: int, listener: socket.socket | None = None
) -> Iterator[tuple[int, list[bytes]]]:
    """Yield a port before the *server*'s, and what clients send there.

    listener: on which to wait for them, of the caller's; on this host if it is None.
    """
    heard: list[bytes] = []
    threads: list[threading.Thread] = []
    listener = listener or socket.create_server(("127.0.0.1", 0))

    def pass_on(source: socket.socket, target: socket.socket, note: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                if note:
                    heard.append(data)
                target.sendall(data)
        with contextlib.suppress(OSError):
            target.shutdown(socket.SHUT_WR)

    def serve(client: socket.socket) -> None:
        with client, socket.create_connection(("127.0.0.1", server)) as behind:
            back = threading.Thread(target=pass_on, args=(behind, client, False))
            back.start()
            pass_on(client, behind, True)
            back.join()

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = listener.accept()
                threads.append(threading.Thread(target=serve, args=(client,)))
                threads[-1].start()

    accepting = threading.Thread(target=accept)
    accepting.start()
    try:
        yield listener.getsockname()[1], heard
    finally:
        with contextlib.suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        for thread in (accepting, *threads):
            thread.join()
