"""A witness on the target's own host, whose addresses say otherwise."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy.engine import make_url

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import UsageError
from dbcheck.cycle.preflight.before_load import run_preflight
from dbcheck.cycle.rig import Rig
from dbcheck.engines.registry import open_engine
from dbcheck.hosts.host import open_host
from dbcheck.lab.servers.base import DatabaseServer
from dbcheck.power.kinds.manual import ManualConfig, ManualSwitch
from dbcheck.witness.log import FrameLogReader
from dbcheck.witness.url import open_witness
from tests.kit.far_host import FarSshd, far_sshd
from tests.kit.lab_access import connect
from tests.kit.nodes import site_of
from tests.kit.refusals import refused
from tests.kit.rigs import SEED, Said, quick
from tests.kit.servers import NewServer

# Says "ready", then leads whoever connects to a socket file.
FORWARD = """
import asyncio, sys

async def carry(reader, writer):
    while chunk := await reader.read(65536):
        writer.write(chunk)
        await writer.drain()
    writer.close()

async def forward(reader, writer):
    far = await asyncio.open_unix_connection(sys.argv[3])
    await asyncio.gather(carry(reader, far[1]), carry(far[0], writer))

async def serve():
    await asyncio.start_server(forward, sys.argv[1], int(sys.argv[2]))
    print("ready", flush=True)
    await asyncio.Event().wait()

asyncio.run(serve())
"""


@contextlib.contextmanager
def forwarder(far: FarSshd, server: DatabaseServer) -> Iterator[str]:
    """Give a URL of the server at an address that is not this host's own."""
    command = ["nsenter", f"--net=/run/netns/{far.network}", sys.executable, "-c"]
    where = [far.host, str(server.port), str(server.run / "server/socket")]
    process = subprocess.Popen([*command, FORWARD, *where], stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        url = make_url(server.url).set(host=far.host)
        yield url.render_as_string(hide_password=False)
    finally:
        process.kill()
        process.communicate()


@pytest.mark.root
def test_a_witness_behind_a_forwarder_is_known_by_its_ids(
    new_server: NewServer, tmp_path: Path
) -> None:
    server = new_server("mariadb")
    server.start()
    account = "create user dbcheck@localhost identified by '{}'; "
    grant = "grant all on *.* to dbcheck@localhost"
    with (
        far_sshd(tmp_path / "far") as far,
        forwarder(far, server) as url,
        contextlib.closing(open_host("local:")) as host,
        contextlib.closing(open_witness(f"file:{tmp_path}/witness")) as witness,
    ):
        for statement in (account.format(server.password), grant):
            _execute(server, statement.rstrip("; "))
        rig = Rig(
            site_of(
                open_engine(url, server.password),
                ManualSwitch(ManualConfig(), lambda _: None),
                host=host,
            ),
            witness,
            FrameLogReader(),
            Said(),
            tmp_path / "runs",
        )
        with refused(
            ErrorId.WITNESS_ON_TARGET, UsageError, naming="the target's own host"
        ):
            run_preflight(rig, quick(), SEED)
        assert not rig.runs.exists()


def _execute(server: DatabaseServer, statement: str) -> None:
    with contextlib.closing(connect(server.url, server.password)) as connection:
        connection.cursor().execute(statement)
