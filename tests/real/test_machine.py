"""A machine whose parts fail: nothing of that is held against its server."""

from __future__ import annotations

import functools
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from dbcheck.errors import LabError
from dbcheck.lab import block_filesystem
from dbcheck.lab.machine import Machine
from dbcheck.lab.spec import LabSpec
from dbcheck.ports import PowerState
from tests.real.drive_mounts import own_mounts as own_mounts
from tests.real.servers import engine_of, skip_without_server

pytestmark = [pytest.mark.root, pytest.mark.usefixtures("own_mounts")]


@pytest.fixture
def machine() -> Iterator[Machine]:
    """A machine that is on."""
    skip_without_server("postgresql")
    # The server's account could not get through the folders that are pytest's own.
    base = Path(tempfile.mkdtemp(prefix="dbcheck-"))
    base.chmod(0o755)
    (base / "files").mkdir()
    machine = Machine(LabSpec("postgresql", filesystem="ext4"), base)
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
    quick = functools.partial(block_filesystem.umount, timeout_s=0.1)
    monkeypatch.setattr(block_filesystem, "umount", quick)
    with (machine.server.data / "PG_VERSION").open():
        with pytest.raises(LabError, match="cannot be unmounted"):
            machine.cut()
        assert is_off(machine)
        with pytest.raises(LabError, match="cannot be unmounted"):
            machine.restore()
        assert is_off(machine)
        assert machine.failure() is None
    machine.restore()
    assert not is_off(machine)
    assert machine.failure() is None
    assert engine_of(machine.server).ready() is None
