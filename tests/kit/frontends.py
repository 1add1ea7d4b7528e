"""What applications have between them and their servers: HAProxy and PgBouncer."""

from __future__ import annotations

import contextlib
import http.server
import json
import os
import shutil
import signal
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from sqlalchemy.engine import make_url

from dbcheck.lab.held_port import HeldPort
from dbcheck.lab.lab import Lab
from tests.kit.waiting import await_end, wait_until

_ACCOUNT = "nobody"
_PATH = f"{os.environ['PATH']}:/usr/sbin:/sbin"


def need(*programs: str) -> None:
    """Skip the test where one of these is not installed."""
    for program in programs:
        if shutil.which(program, path=_PATH) is None:
            pytest.skip(f"needs {program}")


def port_of(lab: Lab) -> int:
    """Return the port of the lab's server."""
    port = make_url(lab.target_url).port
    assert port is not None
    return port


def rest_port_of(lab: Lab) -> int:
    """Return the port of the REST API of the Patroni that runs the lab's server."""
    listened = f":{port_of(lab)}"
    for command in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):  # it has ended meanwhile
            words = command.read_bytes().decode(errors="replace").split("\0")
            files = [word for word in words if word.endswith("/patroni.json")]
            for file in files:  # as the process sees it
                text = Path(f"{command.parent}/root{file}").read_text()
                config = json.loads(text)
                if config["postgresql"]["listen"].endswith(listened):
                    return int(config["restapi"]["listen"].rpartition(":")[2])
    raise AssertionError(f"no Patroni runs the server of {lab.name}")


def target_at(lab: Lab, port: int, **changes: str) -> str:
    """Return the URL of the lab's account at another port of this machine."""
    url = make_url(lab.target_url).set(host="127.0.0.1", port=port)
    return url.update_query_dict(changes).render_as_string(hide_password=False)


@contextlib.contextmanager
def running(words: list[str], port: int, folder: Path) -> Iterator[int]:
    """Run a program that listens on *port*; give its process id, and end it."""
    with (folder / f"{Path(words[0]).name}.log").open("wb") as log:
        program = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )
    try:
        wait_until(
            lambda: program.poll() is not None or _listens(port),
            f"{words[0]} listens",
        )
        assert program.poll() is None, Path(log.name).read_text()
        yield program.pid
    finally:
        with contextlib.suppress(ProcessLookupError):
            program.send_signal(signal.SIGKILL)
        await_end(program)


def _listens(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False


class _QuietServer(http.server.ThreadingHTTPServer):
    def handle_error(self, *_: object) -> None:
        """Say nothing of a check that was broken off."""


class PrimaryChecks:
    """Answers GET and OPTIONS /primary for one node, as Patroni's REST API does.

    200 if *is_primary* returns True, 503 if it returns False or raises.
    """

    def __init__(self, is_primary: Callable[[], bool]) -> None:
        self._is_primary = is_primary
        checks = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(200 if checks.ask() else 503)
                self.end_headers()

            do_OPTIONS = do_GET

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        self._server = _QuietServer(("127.0.0.1", 0), Handler)
        self.port: int = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self._thread.start()

    def ask(self) -> bool:
        """Return whether the node takes writes, as far as it answers."""
        try:
            return self._is_primary()
        except Exception:  # whatever the driver raises of a server that is gone
            return False

    def close(self) -> None:
        """Answer no more."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@contextlib.contextmanager
def haproxy(
    folder: Path,
    nodes: Mapping[str, tuple[int, int | None]],
    options: str = "on-marked-down shutdown-sessions",
) -> Iterator[int]:
    """Run HAProxy before *nodes*; give its port.

    nodes: name -> the port of its server, and of its check; None: it is not checked.
    options: of each server that is checked.
    """
    need("haproxy")
    front = HeldPort()
    lines = [
        "defaults",
        "  mode tcp",
        "  timeout connect 1s",
        "  timeout check 5s",
        "  timeout client 1h",
        "  timeout server 1h",
        "  retries 1",
        "frontend clients",
        f"  bind 127.0.0.1:{front.number}",
        "  default_backend writer",
        "backend writer",
        "  option httpchk OPTIONS /primary",
        "  http-check expect status 200",
    ]
    for name, (port, check) in nodes.items():
        checked = f" check port {check} inter 300ms fall 2 rise 1 {options}"
        lines.append(
            f"  server {name} 127.0.0.1:{port}{'' if check is None else checked}"
        )
    config = folder / "haproxy.cfg"
    config.write_text("\n".join(lines) + "\n")
    words = [find_program("haproxy"), "-db", "-f", str(config)]
    with running(words, front.number, folder):
        yield front.number


@contextlib.contextmanager
def pgbouncer(
    lab: Lab, pool_mode: str, server_port: int = 0, **settings: object
) -> Iterator[int]:
    """Run PgBouncer before the lab's server, or *server_port*; give its port.

    It knows the account's password itself: it answers a login without the server.
    """
    need("pgbouncer", "setpriv")
    front, url = HeldPort(), make_url(lab.target_url)
    # Not below pytest's folder, which is ours alone: PgBouncer does not run as root.
    with TemporaryDirectory(dir="/var/tmp", prefix="dbcheck-") as folder:
        users, config = Path(folder, "users.txt"), Path(folder, "pgbouncer.ini")
        users.write_text(f'"{url.username}" "{lab.password}"\n')
        values = {
            "listen_addr": "127.0.0.1",
            "listen_port": front.number,
            "unix_socket_dir": "",
            "auth_type": "scram-sha-256",
            "auth_file": users,
            "pool_mode": pool_mode,
            **settings,
        }
        config.write_text(
            f"[databases]\n* = host=127.0.0.1 port={server_port or url.port}\n"
            "[pgbouncer]\n"
            + "".join(f"{name} = {value}\n" for name, value in values.items())
        )
        for path in (folder, users, config):
            shutil.chown(path, _ACCOUNT)
        words = [find_program("setpriv"), f"--reuid={_ACCOUNT}", "--clear-groups"]
        words += [find_program("pgbouncer"), str(config)]
        with running(words, front.number, Path(folder)):
            yield front.number


def find_program(program: str) -> str:
    """Return the path of a program; need() has it."""
    found = shutil.which(program, path=_PATH)
    assert found is not None
    return found
