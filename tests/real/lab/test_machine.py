"""A machine whose parts fail: nothing of that is held against its server."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import LabError, Unrecoverable
from dbcheck.lab import mounts
from dbcheck.lab.machine import Machine
from dbcheck.lab.servers.base import DatabaseServer
from dbcheck.lab.spec import LabSpec
from dbcheck.lab.storage import filesystem as block
from dbcheck.model.cut import PowerState
from tests.kit.drive_mounts import own_mounts as own_mounts
from tests.kit.refusals import refused
from tests.kit.servers import (
    SERVERS,
    account_for,
    engine_of,
    segments,
    skip_without_server,
)
from tests.kit.waiting import wait_until

pytestmark = [pytest.mark.root, pytest.mark.usefixtures("own_mounts")]


@pytest.fixture
def machine() -> Iterator[Machine]:
    """A machine that is on."""
    skip_without_server("postgresql")
    # The server's account could not get through the folders that are pytest's own.
    base = Path(tempfile.mkdtemp(prefix="dbcheck-"))
    base.chmod(0o755)
    (base / "files").mkdir()
    account = account_for(SERVERS["postgresql"], base / "data")
    spec = LabSpec("postgresql", filesystem="ext4")
    machine = Machine(spec, base, account=account)
    try:
        machine.build()
        yield machine
    finally:
        machine.close()
        shutil.rmtree(base)


def is_off(machine: Machine) -> bool:
    return machine.power is PowerState.OFF


def test_a_cut_that_stops_halfway_is_ended_by_the_restore(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    umount = mounts.umount

    def quick(mountpoint: Path, timeout_s: float = 0.0) -> None:
        umount(mountpoint, min(timeout_s, 0.1))

    monkeypatch.setattr(mounts, "umount", quick)
    with (machine.server.data / "PG_VERSION").open():
        with refused(ErrorId.FILESYSTEM_IN_USE, LabError, naming="cannot unmount"):
            machine.cut()
        assert is_off(machine)
        with refused(ErrorId.FILESYSTEM_IN_USE, LabError, naming="cannot unmount"):
            machine.restore()
        assert is_off(machine)
        assert machine.failure() is None
    machine.restore()
    assert not is_off(machine)
    assert machine.failure() is None
    assert engine_of(machine.server).ready() is None


def test_what_this_machine_lacks_is_no_failure_of_the_server(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.cut()
    with monkeypatch.context() as patch:
        patch.setattr(block, "_TRIES", 0)
        with refused(ErrorId.LOOP_DEVICE_MISSING, LabError, naming="free loop devices"):
            machine.restore()
    assert is_off(machine)
    with monkeypatch.context() as patch:
        patch.setattr(block, "_set_write_cache", _refuse)
        with refused(ErrorId.LAB_DAEMON_FAILED, LabError, naming="refused"):
            machine.restore()
    assert is_off(machine)
    assert machine.failure() is machine.broken() is None
    machine.restore()
    assert machine.failure() is machine.broken() is None
    assert engine_of(machine.server).ready() is None


def test_a_server_that_is_killed_while_it_recovers_may_try_again(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.cut()
    with monkeypatch.context() as patch:
        patch.setattr(type(machine.server), "_takes_queries", _kill)
        with refused(
            ErrorId.LAB_SERVER_NOT_STARTED, LabError, naming="exit status -9"
        ) as caught:
            machine.restore()
    assert not isinstance(caught.value, Unrecoverable)
    assert is_off(machine)
    assert machine.failure() is machine.broken() is None
    machine.restore()
    assert machine.failure() is machine.broken() is None
    assert engine_of(machine.server).ready() is None


def test_a_server_that_still_recovers_is_left_to_it(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.cut()
    with monkeypatch.context() as patch:
        patch.setattr("dbcheck.lab.machine._RECOVERY_S", 0.3)
        patch.setattr(type(machine.server), "_takes_queries", _freeze)
        machine.restore()
    assert not is_off(machine)
    assert machine.failure() is machine.broken() is None
    assert engine_of(machine.server).ready() is not None
    machine.server.thaw()
    wait_until(lambda: engine_of(machine.server).ready() is None, "server is back")
    assert machine.failure() is None
    pids = machine.server.pids()
    assert segments(pids)
    machine.server.kill()
    assert not segments(pids)


def _freeze(server: DatabaseServer, pid: int) -> bool:
    server.freeze()
    return False


def _refuse(*_: object) -> None:
    raise LabError("refused", id=ErrorId.LAB_DAEMON_FAILED)


def _kill(_server: DatabaseServer, pid: int) -> bool:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    return False
