"""A server that has mounts of its own need not find the files that its host shows."""

from __future__ import annotations

import contextlib
import errno
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dbcheck.agent.host import drives, process, remount
from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import HostError
from dbcheck.cycle.own_data import require_data_directory
from dbcheck.cycle.preflight.audit import audit_server
from dbcheck.hosts.host import open_host
from dbcheck.lab.servers.base import DatabaseServer
from dbcheck.model.host import TargetFacts
from dbcheck.model.places import DATA, Place
from dbcheck.rows.table import LEDGER
from tests.kit.containers import in_memory as in_memory
from tests.kit.containers import inspected, started_apart
from tests.kit.refusals import refused
from tests.kit.servers import NewServer, engine_of

FILES = {
    "mariadb": ("ib_logfile0", "redo log files"),
    "mysql": ("#innodb_redo", "redo log"),
    "postgresql": ("pg_wal", "WAL"),
}

pytestmark = pytest.mark.root


def facts_of(server: DatabaseServer) -> TargetFacts:
    """Return what the host shows, as it is also read after the recovery."""
    engine = engine_of(server)
    with contextlib.closing(open_host("local:")) as host:
        return host.facts(
            require_data_directory(engine.facts()), engine.places((LEDGER,))
        )


@pytest.mark.parametrize("engine", FILES)
def test_a_log_that_is_mounted_for_the_server_alone_is_refused(
    engine: str, new_server: NewServer, in_memory: Path
) -> None:
    server, (name, label) = new_server(engine), FILES[engine]
    copied = ["cp", "-a", str(server.data / name), str(in_memory / name)]
    subprocess.run(copied, check=True)
    with started_apart(server, {server.data / name: in_memory / name}):
        with refused(ErrorId.SERVER_FINDS_OTHER_FILES, HostError) as caught:
            inspected(server)
        found = facts_of(server)
        with contextlib.closing(open_host("local:")) as host:
            audited = audit_server(engine_of(server), host, (LEDGER,), "")
    assert str(server.data / name) in str(caught.value)
    assert found.seen_otherwise.keys() == {label}
    assert "tmpfs" in found.seen_otherwise[label]
    assert audited.host_error_id is ErrorId.SERVER_FINDS_OTHER_FILES


@pytest.mark.parametrize("engine", FILES)
def test_a_server_with_mounts_of_its_own_elsewhere_is_inspected_as_ever(
    engine: str, new_server: NewServer, in_memory: Path
) -> None:
    """As systemd starts a service with PrivateTmp= or ReadWritePaths=."""
    server = new_server(engine)
    apart = {Path("/mnt"): in_memory, server.data: server.data}
    with started_apart(server, apart):
        facts = inspected(server).facts
    assert facts.container is None
    assert (dict(facts.seen_otherwise), facts.view_unread) == ({}, "")


def test_a_data_directory_that_is_mounted_for_the_server_alone_is_named(
    new_server: NewServer, in_memory: Path
) -> None:
    """What its host shows at the path is a copy, which has the server's own names."""
    server = new_server("mariadb")
    copied = ["cp", "-a", str(server.data), str(in_memory / "data")]
    subprocess.run(copied, check=True)
    with started_apart(server, {server.data: in_memory / "data"}):
        found = facts_of(server)
    assert found.seen_otherwise.keys() == {"data"}


# Where a server's own name stands in a file: (name, offset).
NAMES = {
    "mariadb": ("aria_log_control", 4),
    "mysql": ("auto.cnf", -3),
    "postgresql": ("global/pg_control", 0),
}


@pytest.mark.parametrize("engine", FILES)
def test_another_server_in_a_folder_of_the_same_path_is_not_this_one(
    engine: str, new_server: NewServer, in_memory: Path
) -> None:
    """As one in a container, while the server itself cannot be seen."""
    other = new_server(engine)
    other.start()  # which names it, of MySQL
    other.stop(60)
    own = in_memory / "data"
    subprocess.run(["cp", "-a", str(other.data), str(own)], check=True)
    name, at = NAMES[engine]
    content = bytearray((other.data / name).read_bytes())
    content[at] = ord("1" if content[at] == ord("0") else "0")
    (other.data / name).write_bytes(content)
    places = [Place(DATA, str(other.data))]
    apart, host = started_apart(other, {other.data: own}), open_host("local:")
    with apart, contextlib.closing(host):
        found = host.facts(str(other.data), places)
    assert dict(found.seen_otherwise) == {}
    assert str(other.data) in found.view_unread
    assert found.process is not None and found.process.unread


# Is taken for a server, as it has the name of one.
_NAMED = 'cd "$1" && echo mysqld > /proc/$$/comm && echo && read _'
_APART = f'mount --bind "$2" "$1" && {_NAMED}'


@contextlib.contextmanager
def named(script: str, *words: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run a process that has the name of a server, in a mount namespace of its own."""
    command = ["unshare", "--mount", "--propagation=private", "sh", "-c", script, "sh"]
    with subprocess.Popen(
        [*command, *map(str, words)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"\n"
        yield process


@pytest.mark.parametrize("back", [False, True])
@pytest.mark.parametrize("dead", [False, True])
def test_a_server_in_a_container_is_not_killed_with_that_of_the_same_path(
    back: bool, dead: bool, tmp_path: Path, in_memory: Path, monkeypatch: Any
) -> None:
    """back: its drive, under another number.  dead: its filesystem shows nothing."""
    seen = drives.survey([], str(tmp_path), [], "/")
    if back:
        seen["folder"] = [0, 0]
    found = os.stat
    with named(_NAMED, tmp_path) as own, named(_APART, tmp_path, in_memory) as other:

        def refused(path: Any, **how: Any) -> os.stat_result:
            if str(path) == f"/proc/{own.pid}/cwd":
                raise OSError(errno.EIO, "dead")
            return found(path, **how)

        if dead:
            monkeypatch.setattr(os, "stat", refused)
        place = seen["directory"], seen["account"], seen["folder"]
        assert remount.end_server(*place, [], 1) == {"killed": [own.pid], "left": []}
        assert other.poll() is None


_ITS_OWN_ETC = f'mount --bind "$2" /etc && {_NAMED}'


@pytest.mark.parametrize("how", ["a link", "a file that is root's alone", "readable"])
def test_a_server_shows_no_file_that_its_account_cannot_read(
    how: str, tmp_path: Path
) -> None:
    """What is mounted for it, as in a user namespace, may be any file of the host."""
    secret, etc = tmp_path / "secret", tmp_path / "etc"
    etc.mkdir()
    secret.write_text("thesis.so")
    secret.chmod(0o600)
    preload = etc / "ld.so.preload"
    if how == "a link":
        preload.symlink_to(secret)
    else:
        secret.rename(preload)
    if how == "readable":
        preload.chmod(0o644)
    with named(_ITS_OWN_ETC, tmp_path, etc):
        shown = process.describe_server_process(str(tmp_path))
    assert shown["preloaded"] == (["thesis.so"] if how == "readable" else [])
    assert ("ld.so.preload" in shown["unread"]) == (how != "readable")
