"""The load's sessions over TLS: who is let in, and that nothing of it blocks."""

from __future__ import annotations

import contextlib
import select
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import cast

import pytest
from sqlalchemy.engine import make_url

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import EngineError
from dbcheck.base.system import now_us
from dbcheck.engines.postgresql.session import PostgresqlSession
from dbcheck.engines.registry import open_engine
from dbcheck.lab.servers.base import DatabaseServer
from dbcheck.load.compiled import make_loop
from dbcheck.load.loop import Loop
from dbcheck.load.sessions import Sessions, commit
from dbcheck.ports.engine import Engine
from dbcheck.ports.witness import WitnessLog
from dbcheck.rows.plans.plan import INSERT, InsertPlan
from dbcheck.rows.schedule import Schedule
from dbcheck.rows.table import LEDGER
from tests.kit.certificates import Authority
from tests.kit.far_host import far_listener, far_network
from tests.kit.lab_access import connect
from tests.kit.operations import batches, insert
from tests.kit.overheard import overheard
from tests.kit.refusals import refused
from tests.kit.servers import NewServer
from tests.kit.sessions import run_on
from tests.kit.waiting import wait_until
from tests.kit.witness_logs import FakeLog

SESSIONS, COMMITS = 16, 400
LARGE_BYTES = 131_072  # the largest payload that a workload may have
SMALL_BUFFER = 1 << 12
_PATIENCE_S = 10.0
SCHEDULE = Schedule(seed=1, epoch=3, payload_bytes=(1, 300, LARGE_BYTES))
LARGE = Schedule(seed=1, epoch=3, payload_bytes=(LARGE_BYTES,))

# ------------------------------------------------------------------------- the server


@dataclass(frozen=True)
class Secured:
    """A server that offers TLS, and whom to trust."""

    server: DatabaseServer
    authority: Path
    stranger: Path  # another authority

    def engine(self, sslmode: str, **changed: str) -> Engine:
        """Return the engine that connects so."""
        # By the name that the certificate bears, and at once where the server listens.
        options = {"hostaddr": "127.0.0.1", "sslrootcert": str(self.authority)}
        url = make_url(self.server.url).set(
            host=changed.pop("host", "localhost"),
            port=int(changed.pop("port", self.server.port)),
        )
        url = url.update_query_dict({**options, "sslmode": sslmode, **changed})
        return open_engine(url.render_as_string(), self.server.password)


@pytest.fixture(scope="module")
def secured(
    postgresql_server: DatabaseServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Secured]:
    """Have the shared server offer TLS for a while."""
    server, folder = postgresql_server, tmp_path_factory.mktemp("tls")
    trusted = Authority.new(folder / "trusted.pem")
    stranger = Authority.new(folder / "stranger.pem")
    trusted.vouch(server.data)
    try:
        _offer_tls(server, "on")
        yield Secured(server, trusted.path, stranger.path)
    finally:
        _offer_tls(server, "off")
        for name in ("server.crt", "server.key"):
            (server.data / name).unlink()


def _offer_tls(server: DatabaseServer, value: str) -> None:
    """Have it offer TLS or not, from the next connection on."""

    def shows() -> str:
        with contextlib.closing(connect(server.url, server.password)) as connection:
            cursor = connection.cursor()
            cursor.execute("show ssl")
            return str(cursor.fetchone()[0])

    with contextlib.closing(connect(server.url, server.password)) as connection:
        cursor = connection.cursor()
        to = f"set ssl = {value}" if value == "on" else "reset ssl"
        cursor.execute(f"alter system {to}")
        cursor.execute("select pg_reload_conf()")
    wait_until(lambda: shows() == value, f"ssl is {value}")


@pytest.fixture
def fresh(secured: Secured) -> Iterator[Secured]:
    """The server without any of dbcheck's tables."""
    engine = secured.engine("require")
    engine.drop()
    engine.prepare((LEDGER,))
    yield secured
    engine.drop()


def session_of(engine: Engine) -> PostgresqlSession:
    session = engine.open_session((INSERT,))
    assert isinstance(session, PostgresqlSession)
    return session


# ------------------------------------------------------------------------ who gets in


@pytest.mark.parametrize("mode", ["require", "verify-ca", "verify-full"])
def test_rows_are_committed_and_read_over_tls(fresh: Secured, mode: str) -> None:
    engine = fresh.engine(mode)
    engine.check((INSERT,))
    rows = [SCHEDULE.row(1, seq) for seq in range(1, 13)]
    assert {len(row.payload) for row in rows} == set(SCHEDULE.payload_bytes)
    with contextlib.closing(session_of(engine)) as session:
        state = "select ssl, version from pg_stat_ssl where pid = pg_backend_pid()"
        ((is_tls, version),) = run_on(session, state)
        assert is_tls and version.startswith("TLS")
        ids = [commit(session, insert(row)) for row in rows]
    stored = [row for batch in batches(engine) for row in batch]
    sent = [row._replace(row_id=i) for row, i in zip(rows, ids, strict=True)]
    assert sorted(stored) == sorted(sent)
    assert engine.row(LEDGER, ids[-1])


@pytest.mark.parametrize(
    ("mode", "changed", "said", "hint"),
    [
        pytest.param(
            "verify-full", "stranger", "verify failed", "sslrootcert", id="CA"
        ),
        pytest.param("verify-ca", "stranger", "verify failed", "sslrootcert", id="ca"),
        pytest.param("verify-full", "address", "does not match", "sslmode", id="host"),
        pytest.param(
            "verify-full", "nothing", "does not exist", "sslrootcert", id="no"
        ),
    ],
)
def test_whoever_cannot_be_verified_is_refused(
    fresh: Secured, mode: str, changed: str, said: str, hint: str
) -> None:
    changes = {
        "stranger": {"sslrootcert": str(fresh.stranger)},
        "address": {"host": "127.0.0.1"},
        "nothing": {"sslrootcert": str(fresh.stranger) + ".not"},
    }
    engine = fresh.engine(mode, **changes[changed])
    calls: tuple[Callable[[], object], ...] = (
        lambda: engine.open_session((INSERT,)),
        engine.facts,
    )
    for call in calls:
        with refused(
            ErrorId.SERVER_CERTIFICATE_REFUSED, EngineError, naming=said
        ) as caught:
            call()
        assert hint in caught.value.hint
        assert fresh.server.password not in str(caught.value)


def test_a_server_without_tls_is_refused_where_it_is_required(
    new_server: NewServer,
) -> None:
    server = new_server("postgresql")
    server.start()
    url = make_url(server.url).update_query_dict({"sslmode": "require"})
    engine = open_engine(url.render_as_string(), server.password)
    with refused(
        ErrorId.SERVER_CERTIFICATE_REFUSED, EngineError, naming="does not support SSL"
    ) as caught:
        engine.open_session((INSERT,))
    assert "sslmode" in caught.value.hint


# ------------------------------------------------------- the password, on another host

EVES = "hunter2-and-more"  # the password of each account below
METHODS = {"cleartext": "password", "md5": "md5", "scram": "scram-sha-256"}


@pytest.fixture(scope="module")
def accounts(secured: Secured) -> Iterator[Secured]:
    """Give the server an account for each way to log in with a password."""
    server = secured.server
    hba = server.data / "pg_hba.conf"
    before = hba.read_text()
    with contextlib.closing(connect(server.url, server.password)) as connection:
        cursor = connection.cursor()

        def load(lines: str) -> None:
            cursor.execute("select pg_conf_load_time()")
            (then,) = cursor.fetchone()
            hba.write_text(lines + before)
            cursor.execute("select pg_reload_conf()")

            def loaded() -> bool:
                cursor.execute("select pg_conf_load_time() > %s", (then,))
                return bool(cursor.fetchone()[0])

            wait_until(loaded, "pg_hba.conf is read")

        for name, method in METHODS.items():
            kind = "md5" if method == "md5" else "scram-sha-256"
            cursor.execute(f"set password_encryption = '{kind}'")
            cursor.execute(f"create role {name} superuser login password '{EVES}'")
        load("".join(f"host all {n} 127.0.0.1/32 {m}\n" for n, m in METHODS.items()))
        secured.engine("require").prepare((LEDGER,))
        try:
            yield secured
        finally:
            secured.engine("require").drop()
            load("")
            cursor.execute(f"drop role {', '.join(METHODS)}")


@dataclass(frozen=True)
class Far:
    """The server as another host has it, where *heard* is what its clients say."""

    secured: Secured
    host: str
    port: int
    heard: list[bytes]

    def engine(self, account: str, **options: str) -> Engine:
        """Return the engine of an account for that host."""
        url = make_url(self.secured.server.url).set(
            username=account, host=self.host, port=self.port
        )
        return open_engine(url.update_query_dict(options).render_as_string(), EVES)

    def has_heard_the_password(self) -> bool:
        """Say whether anybody on the way could read it."""
        return EVES.encode() in b"".join(self.heard)


@pytest.fixture
def far(accounts: Secured) -> Iterator[Far]:
    with (
        far_network() as network,
        far_listener(network) as listener,
        overheard(accounts.server.port, listener) as (port, heard),
    ):
        yield Far(accounts, network.host, port, heard)


def log_in(engine: Engine) -> None:
    """Log in with both drivers."""
    engine.facts()
    session_of(engine).close()


@pytest.mark.root
def test_no_password_goes_in_clear_to_a_host_that_is_not_verified(far: Far) -> None:
    plain = {"sslmode": "disable"}
    for account in ("cleartext", "md5"):
        for options in (plain, {}):
            engine = far.engine(account, **options)
            for call in (engine.facts, partial(engine.open_session, (INSERT,))):
                with refused(
                    ErrorId.SERVER_NOT_VERIFIED, EngineError, naming="requirement"
                ) as caught:
                    call()
                assert "sslmode=verify-full" in caught.value.hint
                assert "require_auth=md5" in caught.value.hint
    assert far.heard
    assert not far.has_heard_the_password()
    for options in (plain, {}):  # without TLS, and with TLS that nobody verified
        log_in(far.engine("scram", **options))
    assert not far.has_heard_the_password()


@pytest.mark.root
def test_who_verifies_the_server_or_says_so_logs_in_as_before(far: Far) -> None:
    verified = {"hostaddr": far.host, "sslrootcert": str(far.secured.authority)}
    for account in METHODS:
        log_in(far.engine(account, sslmode="verify-ca", **verified))
    assert not far.has_heard_the_password()
    log_in(far.engine("md5", sslmode="disable", require_auth="md5"))
    assert not far.has_heard_the_password()
    knowingly = {"sslmode": "disable", "require_auth": "password"}
    log_in(far.engine("cleartext", **knowingly))
    assert far.has_heard_the_password()  # so the listener would have heard it above


def test_a_port_of_this_machine_is_as_any_other_host(accounts: Secured) -> None:
    """Who verifies the server logs in by each method; all others by SCRAM."""
    for account in METHODS:
        url = make_url(accounts.server.url).set(username=account)
        for host in ("127.0.0.1", "localhost"):
            engine = open_engine(url.set(host=host).render_as_string(), EVES)
            if account == "scram":
                log_in(engine)
                continue
            with refused(
                ErrorId.SERVER_NOT_VERIFIED, EngineError, naming="requirement"
            ):
                engine.facts()
        verified = {"sslmode": "verify-ca", "sslrootcert": str(accounts.authority)}
        log_in(open_engine(url.update_query_dict(verified).render_as_string(), EVES))


# ----------------------------------------------------------------------- nothing blocks


class Relay:
    """Passes on what the client and the server say, as slowly as it is told to.

    up:   set: what the client says is passed on.
    drip: None: what the server says is passed on; else a byte whenever it is released.

    Where nobody comes to let it go on, it does so by itself: what blocks is told by the
    time that it took.
    """

    def __init__(self, port: int) -> None:
        self.up = threading.Event()
        self.up.set()
        self.drip: threading.Semaphore | None = None
        self._listener = socket.create_server(("127.0.0.1", 0))
        # What is accepted inherits it: the client's system can hold back little.
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SMALL_BUFFER)
        self.port: int = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._serve, args=(port,))
        self._thread.start()

    def close(self) -> None:
        """Pass on what is left, until both have hung up."""
        self.up.set()
        self.drip = None
        self._thread.join()
        self._listener.close()

    def _serve(self, port: int) -> None:
        client, _ = self._listener.accept()
        server = socket.create_connection(("127.0.0.1", port))
        with client, server:
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            back = threading.Thread(target=self._pass_back, args=(server, client))
            back.start()
            with contextlib.suppress(OSError):
                while data := self._from_client(client):
                    server.sendall(data)
                server.shutdown(socket.SHUT_WR)
            back.join()

    def _from_client(self, client: socket.socket) -> bytes:
        if not self.up.wait(_PATIENCE_S):
            self.up.set()
        return client.recv(1 << 16)

    def _pass_back(self, server: socket.socket, client: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := server.recv(1 << 16):
                while data and (drip := self.drip):
                    if not drip.acquire(timeout=_PATIENCE_S):
                        self.drip = None
                    client.sendall(data[:1])
                    data = data[1:]
                client.sendall(data)


@pytest.fixture
def relay(fresh: Secured) -> Iterator[Relay]:
    made = Relay(fresh.server.port)
    yield made
    made.close()


@pytest.fixture
def relayed(fresh: Secured, relay: Relay) -> Iterator[PostgresqlSession]:
    """A session whose client and server hear each other through the relay."""
    session = session_of(fresh.engine("verify-full", port=str(relay.port)))
    buffer = socket.SO_SNDBUF
    session._wire.setsockopt(socket.SOL_SOCKET, buffer, SMALL_BUFFER)
    yield session
    session.close()


def test_a_row_that_does_not_fit_is_sent_piece_by_piece(
    fresh: Secured, relay: Relay, relayed: PostgresqlSession
) -> None:
    relay.up.clear()
    row = LARGE.row(1, 1)
    # Nothing comes through now: a call that waited for the server would not return.
    assert not relayed.send(insert(row))
    assert not relayed.flush()
    assert relayed.receive() is None
    relay.up.set()
    pieces, sent, row_id = 0, False, None
    while row_id is None:
        wanted = [] if sent else [relayed]
        readable, writable, _ = select.select([relayed], wanted, [], 30)
        assert readable or writable, "no answer came"
        if writable:
            pieces += 1
            sent = relayed.flush()
        if readable:
            row_id = relayed.receive()
    assert pieces > 3
    (batch,) = batches(fresh.engine("require"))
    assert list(batch) == [row._replace(row_id=row_id)]


def test_a_reply_may_come_byte_by_byte(
    fresh: Secured, relay: Relay, relayed: PostgresqlSession
) -> None:
    relay.drip = threading.Semaphore(0)
    assert relayed.send(insert(SCHEDULE.row(1, 1))) or relayed.flush()
    received: list[int | None] = [None]
    while received[-1] is None:
        relay.drip.release()
        assert select.select([relayed], [], [], 30)[0], "no byte came"
        received.append(relayed.receive())
    assert len(received) > 20
    assert fresh.engine("require").row(LEDGER, received[-1])


@pytest.mark.parametrize("make", [Loop, make_loop])
def test_sixteen_sessions_are_acked_what_they_committed(
    fresh: Secured, make: Callable[[Sessions, WitnessLog], Loop]
) -> None:
    """The load's own loop; payloads of all sizes, and none waits for another."""
    engine = fresh.engine("verify-full")
    log, schedule = FakeLog(), SCHEDULE
    plan = InsertPlan(schedule)
    sessions = Sessions(engine, engine.facts(), plan, None, SESSIONS)
    loop = make(sessions, cast("WitnessLog", log))
    try:
        loop.connect()
        loop.start(now_us())
        wait_until(
            lambda: (
                len(log.acks) >= COMMITS
                and len({ack[0] for ack in list(log.acks)}) == SESSIONS
            ),
            "commits of all sessions are acked",
        )
    finally:
        told = loop.end()
        log.close()
    assert told.failure is None and told.witness_error is None and not told.refusals
    acked = {(session, seq): row_id for session, seq, row_id, _ in log.acks}
    stored = {(row.session, row.seq): row for batch in batches(engine) for row in batch}
    for key, row_id in acked.items():
        assert stored[key] == schedule.row(*key)._replace(row_id=row_id)
    assert len(stored) - len(acked) <= SESSIONS  # one in flight for each
