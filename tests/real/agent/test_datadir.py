"""The directory that a rig's host shows must be the one of the server under test."""

from __future__ import annotations

import contextlib
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import HostError
from dbcheck.cycle.own_data import find_own_data, require_data_directory
from dbcheck.hosts.host import open_host
from dbcheck.lab.servers.base import DatabaseServer
from dbcheck.model.server import ServerFacts
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


def naming(facts: ServerFacts, directory: Path) -> ServerFacts:
    """Return the facts of a server that names this directory as its own."""
    names = {"data_directory", "datadir"} & facts.identity.keys()
    identity = {**facts.identity, **dict.fromkeys(names, str(directory))}
    return replace(facts, identity=identity)


def test_only_the_servers_own_directory_is_taken(
    server: DatabaseServer, engine: Engine, tmp_path: Path
) -> None:
    facts = engine.facts()
    own = require_data_directory(facts)
    with contextlib.closing(open_host("local:")) as host:
        assert find_own_data(host, facts, engine.mark_data) == 0
        empty, copy = tmp_path / "empty", tmp_path / "copy"
        empty.mkdir()
        copied(Path(own), copy)
        changed(copy)
        for directory in (empty, copy):
            with refused(ErrorId.DATA_DIRECTORY_NOT_ON_HOST, HostError) as caught:
                find_own_data(host, naming(facts, directory), engine.mark_data)
            assert "container" in caught.value.hint
        assert find_own_data(host, facts, engine.mark_data) == 0


@pytest.mark.root
def test_a_directory_that_is_not_there_is_missing(
    engine: Engine, tmp_path: Path
) -> None:
    """Another user would be told of other accounts' servers, which may have it."""
    named = naming(engine.facts(), tmp_path / "none")
    missing = refused(ErrorId.HOST_PATH_MISSING, HostError, naming="No such file")
    with contextlib.closing(open_host("local:")) as host, missing:
        find_own_data(host, named, engine.mark_data)
