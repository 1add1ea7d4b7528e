"""An agent on a witness, or its SSH server, that sends without end or not enough."""

from __future__ import annotations

import shutil
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from socket import create_server, socket

import paramiko
import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import HostError, WitnessError
from dbcheck.cycle import fetching
from dbcheck.cycle.fetching import fetch_logs, have_logs_grown, limit_chunks
from dbcheck.cycle.rig import Rig
from dbcheck.remote import channel, ssh
from dbcheck.remote.address import Address, SshOptions
from dbcheck.remote.ssh import SshHost, SshPipe
from dbcheck.runs.folder import RunFolder
from dbcheck.witness.log import FrameLogReader
from dbcheck.witness.witness import FileWitness
from tests.kit.nodes import site_of
from tests.kit.partial_rig import RecordingListener
from tests.kit.refusals import refused
from tests.kit.samples import LOAD, MANIFEST

RUN = MANIFEST.run_id
# It takes the place of the Python that is to run the agent.
AGENT = """#!{python}
import itertools, json, os, struct, time
def send(kind, payload, length=None):
    size = len(payload) if length is None else length
    message = struct.pack("<BIII", kind, 0, 0, size) + payload
    while message:
        message = message[os.write(1, message):]
RESULT, DATA, END, MARK, ERROR = range(101, 106)
os.write(1, b"dbcheck agent 1\\n")
{body}
while os.read(0, 1 << 16):
    pass
"""
ENDLESS = "while True: send(DATA, bytes(1 << 18))"
EMPTY = "while True: send(DATA, b'')"
TRICKLE = """
send(DATA, b'', 1000)
while True: os.write(1, b'x'); time.sleep(0.05)
"""
DRIPS = "while True: send(DATA, b'x'); time.sleep(0.05)"
FACTS = dict.fromkeys(["hostname", "machine_id", "boot_id", "folder", "filesystem"], "")
NAMES = FACTS | {"addresses": [], "free_bytes": 1, "clock_us": 1}


def result(value: str) -> str:
    return f"send(RESULT, json.dumps({value}).encode())"


@pytest.fixture
def witness_of(tmp_path: Path) -> Callable[[str], FileWitness]:
    def made(body: str) -> FileWitness:
        script = tmp_path / "agent"
        script.write_text(AGENT.format(python=sys.executable, body=body))
        script.chmod(0o700)
        folder = tmp_path / "witness"
        return FileWitness("file:w", folder, python=str(script))

    return made


@pytest.mark.parametrize(
    ("body", "ask", "said"),
    [
        pytest.param(
            ENDLESS, lambda w: w.manifest(RUN), "longer than the 4194304", id="manifest"
        ),
        pytest.param(
            EMPTY, lambda w: w.manifest(RUN), "unexpected reply", id="empty parts"
        ),
        pytest.param(
            result("['x'] * 100001"),
            lambda w: w.runs(),
            "unexpected reply from the witness",
            id="many runs",
        ),
        pytest.param(
            result("['x' * 101]"),
            lambda w: w.runs(),
            "unexpected reply from the witness",
            id="a long id",
        ),
        pytest.param(
            result(f"dict({NAMES}, hostname='x' * 5000)"),
            lambda w: w.facts(),
            "too long to be valid",
            id="a long name",
        ),
        pytest.param(
            result(f"dict({NAMES}, addresses=[str(n) for n in range(10001)])"),
            lambda w: w.facts(),
            "too long to be valid",
            id="many addresses",
        ),
        pytest.param(
            result("[]"), lambda w: w.probe(9), "reports 0 writes", id="no probe"
        ),
    ],
)
def test_what_comes_has_bounds(
    witness_of: Callable[[str], FileWitness],
    body: str,
    ask: Callable[[FileWitness], object],
    said: str,
) -> None:
    with (
        closing(witness_of(body)) as witness,
        pytest.raises(WitnessError, match=said) as caught,
    ):
        ask(witness)
    assert caught.value.hint


@pytest.mark.parametrize("body", [TRICKLE, DRIPS])
def test_a_trickle_is_not_waited_for(
    witness_of: Callable[[str], FileWitness], body: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(channel, "REPLY_TIMEOUT_S", 1.0)
    with (
        closing(witness_of(body)) as witness,
        refused(
            ErrorId.HOST_NOT_ANSWERING,
            WitnessError,
            naming="stopped mid-answer, or sent less",
        ),
    ):
        witness.manifest(RUN)


def test_an_error_of_any_length_is_shortened(
    witness_of: Callable[[str], FileWitness],
) -> None:
    body = "send(ERROR, json.dumps({'code': 'x', 'message': 'x' * 10**6}).encode())"
    with (
        closing(witness_of(body)) as witness,
        refused(ErrorId.AGENT_FAILED, WitnessError, naming="xxxx") as caught,
    ):
        witness.runs()
    assert len(str(caught.value)) < 3000


@pytest.mark.parametrize("known", [True, False])
def test_an_endless_log_fills_no_disk(
    witness_of: Callable[[str], FileWitness],
    tmp_path: Path,
    known: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The record of the load bounds it; without one, what is free here."""
    run = RunFolder.create(tmp_path / "runs", MANIFEST)
    if known:
        run.write_load(LOAD)
    else:
        monkeypatch.setattr(fetching, "LOG_BYTES_MAX", 1 << 24)
    most = FrameLogReader().bytes_max(2) if known else 1 << 24
    assert most < 1 << 25
    with closing(witness_of(ENDLESS)) as witness:
        rig = rig_of(witness, tmp_path)
        said = f"log 0 of run {RUN} on file:w is longer than {most} bytes"
        with refused(
            ErrorId.WITNESS_SENDS_TOO_MUCH, WitnessError, naming=said
        ) as caught:
            fetch_logs(rig, run, MANIFEST)
        assert caught.value.hint
        assert not list(run.path.glob("acks*"))
        assert have_logs_grown(
            rig, MANIFEST, [1 << 20]
        )  # and no more is read than tells it


def rig_of(witness: FileWitness, folder: Path) -> Rig:
    nothing: object = None
    return Rig(site_of(nothing), witness, FrameLogReader(), RecordingListener(), folder)


def test_a_log_of_unknown_length_leaves_half_of_what_is_free(tmp_path: Path) -> None:
    free = shutil.disk_usage(tmp_path).free
    assert 0 < fetching.limit_log_bytes(tmp_path) <= free * 3 // 4
    assert b"".join(limit_chunks(4, [b"ab", b"cd"], "w")) == b"abcd"
    with refused(
        ErrorId.WITNESS_SENDS_TOO_MUCH, WitnessError, naming=("w is", "than 3")
    ):
        list(limit_chunks(3, [b"ab", b"cd"], "w"))


# ----------------------------------------------------------------------- its SSH server


class Hostile(paramiko.ServerInterface):
    """Lets anybody in; answers a request to run a program only if *answers*."""

    def __init__(self, *, answers: bool) -> None:
        self._answers = answers
        self.over = threading.Event()

    def check_auth_publickey(self, username: str, key: paramiko.PKey) -> int:
        return paramiko.AUTH_SUCCESSFUL  # type: ignore[attr-defined, no-any-return]

    def get_allowed_auths(self, username: str) -> str:
        return "publickey"

    def check_channel_request(self, kind: str, chanid: int) -> int:
        return paramiko.OPEN_SUCCEEDED  # type: ignore[attr-defined, no-any-return]

    def check_channel_exec_request(
        self, channel: paramiko.Channel, command: bytes
    ) -> bool:
        if not self._answers:
            self.over.wait(60)
        return True


@contextmanager
def hostile_host(folder: Path, *, answers: bool) -> Iterator[SshHost]:
    """Give the way to a host whose SSH server never reads what a program is sent."""
    key = paramiko.RSAKey.generate(2048)
    key.write_private_key_file(str(folder / "key"))
    server = Hostile(answers=answers)
    with create_server(("127.0.0.1", 0)) as listener:
        transports: list[paramiko.Transport] = []

        def serve() -> None:
            connection: socket = listener.accept()[0]
            transports.append(paramiko.Transport(connection))
            transports[0].add_server_key(key)
            transports[0].start_server(server=server)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        host = SshHost(
            "evil",
            Address("127.0.0.1", "me", listener.getsockname()[1]),
            SshOptions(
                accept_new_host_key=True,
                identity_file=folder / "key",
                known_hosts=folder / "known_hosts",
                config_file=Path("/dev/null"),
                connect_timeout_s=2.0,
            ),
        )
        try:
            yield host
        finally:
            server.over.set()
            host.close()
            thread.join(10)
            for transport in transports:
                transport.close()


def test_a_host_that_never_starts_the_program_is_given_up(tmp_path: Path) -> None:
    with (
        hostile_host(tmp_path, answers=False) as host,
        refused(ErrorId.AGENT_NOT_STARTED, HostError, naming="evil"),
    ):
        host.run(b"")


def test_a_host_that_reads_nothing_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ssh, "_STUCK_S", 0.5)
    with hostile_host(tmp_path, answers=True) as host:
        pipe = host.run(b"")
        assert isinstance(pipe, SshPipe)
        with pytest.raises(BrokenPipeError, match="accepted no data"):
            pipe.send(bytes(8 << 20))
        pipe.close()
