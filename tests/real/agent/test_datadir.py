"""The directory that a rig's host shows must be the one of the server under test."""

from __future__ import annotations

import contextlib
import re
import shutil
from pathlib import Path

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import HostError
from dbcheck.cycle.host import require_data_directory, require_own_data
from dbcheck.hosts.host import open_host
from dbcheck.lab.servers.base import DatabaseServer
from dbcheck.ports.engine import Engine
from tests.kit.refusals import refused

NAMING = ("global/pg_control", "postmaster.pid", "auto.cnf", "dbcheck/marker.frm")


def copied(data: Path, to: Path) -> None:
    """Copy what names the data of a server that runs."""
    for name in NAMING:
        if (data / name).exists():
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(data / name, to / name)


def changed(copy: Path) -> None:
    """Give a copy the names that the data of another server have."""
    for path in copy.rglob("*.*"):
        if path.name == "auto.cnf":
            path.write_text(re.sub("=[0-9a-f]{8}", "=00000000", path.read_text()))
        if path.name == "postmaster.pid":  # as an earlier start of this one left it
            lines = path.read_text().splitlines()
            path.write_text("\n".join([*lines[:2], "1700000000", *lines[3:]]))


def test_only_the_servers_own_directory_is_taken(
    server: DatabaseServer, engine: Engine, tmp_path: Path
) -> None:
    facts = engine.facts()
    own = require_data_directory(facts)
    with contextlib.closing(open_host("local:")) as host:
        require_own_data(host, own, facts, engine.mark_data)
        empty, copy = tmp_path / "empty", tmp_path / "copy"
        empty.mkdir()
        copied(Path(own), copy)
        changed(copy)
        for directory in (str(empty), str(copy)):
            with refused(ErrorId.DATA_DIRECTORY_NOT_ON_HOST, HostError) as caught:
                require_own_data(host, directory, facts, engine.mark_data)
            assert "container" in caught.value.hint
        with refused(ErrorId.HOST_PATH_MISSING, HostError, naming="No such file"):
            require_own_data(host, str(tmp_path / "none"), facts, engine.mark_data)
        require_own_data(host, own, facts, engine.mark_data)
