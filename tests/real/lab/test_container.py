"""A lab's server in a container: what is its own, and what the host has of it."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from dbcheck.lab.servers.base import DatabaseServer
from dbcheck.lab.servers.container import HOSTNAME, TOP, Container
from tests.kit.servers import NewServer, answers, engine_of
from tests.kit.waiting import wait_until

pytestmark = pytest.mark.root

ENGINES = ("mariadb", "mysql", "postgresql")
ONE_BY_DEFAULT = pytest.mark.wide_with("mariadb", "mysql")
OWN = ("ipc", "mnt", "net", "pid", "uts")
SHARED = ("cgroup", "user")


@pytest.fixture(params=ENGINES)
def server(request: pytest.FixtureRequest, new_server: NewServer) -> DatabaseServer:
    """A server that is not started yet."""
    return new_server(request.param)


@pytest.fixture
def started(server: DatabaseServer) -> Iterator[DatabaseServer]:
    """The server, in a container whose data are in its writable layer."""
    server.launcher = Container(server.data, {}, layer=True)
    server.start()
    yield server
    server.kill()
    server.launcher.close()


def namespace(pid: int | str, kind: str) -> str:
    return os.readlink(f"/proc/{pid}/ns/{kind}")


def is_open(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def test_it_has_its_own_namespaces_and_is_the_first_process_there(
    started: DatabaseServer,
) -> None:
    first = started.pids()[0]
    for pid in started.pids():
        assert all(namespace(pid, kind) != namespace("self", kind) for kind in OWN)
        assert all(namespace(pid, kind) == namespace("self", kind) for kind in SHARED)
    status = Path(f"/proc/{first}/status").read_text()
    (ids,) = [line.split() for line in status.splitlines() if line.startswith("NSpid")]
    assert ids[-1] == "1"
    inside = ["nsenter", "--target", str(first), "--uts", "--net", "sh", "-c"]
    seen = subprocess.run(
        [*inside, "uname -n; cat /proc/net/dev"], capture_output=True, check=True
    )
    hostname, *devices = seen.stdout.decode().splitlines()
    assert hostname == HOSTNAME
    assert [line.split(":")[0].strip() for line in devices if ":" in line] == ["lo"]
    assert os.readlink(f"/proc/{first}/cwd") == str(TOP / "data")


@ONE_BY_DEFAULT
def test_this_thread_keeps_its_own_namespaces(started: DatabaseServer) -> None:
    """And so do the processes that it starts later."""
    assert namespace("thread-self", "pid_for_children") == namespace("self", "pid")
    later = subprocess.run(
        ["readlink", *(f"/proc/self/ns/{kind}" for kind in OWN)],
        capture_output=True,
        check=True,
    )
    assert later.stdout.decode().split() == [namespace("self", kind) for kind in OWN]


def test_its_port_is_published_and_closed_with_the_container(
    started: DatabaseServer,
) -> None:
    assert answers(engine_of(started))
    started.kill()
    assert not answers(engine_of(started))
    started.start()
    assert answers(engine_of(started))
    started.kill()
    started.launcher.close()
    wait_until(lambda: not is_open(started.port), "the port is closed")


@ONE_BY_DEFAULT
def test_nothing_of_its_layer_stays_mounted(started: DatabaseServer) -> None:
    merged = f" {started.data.with_name('merged')} "
    mounted = Path("/proc/self/mountinfo")
    assert merged in mounted.read_text()
    started.stop()
    assert merged not in mounted.read_text()
    started.start()
    assert merged in mounted.read_text()
    started.kill()
    assert merged not in mounted.read_text()


@ONE_BY_DEFAULT
def test_a_server_at_the_same_path_in_another_container_is_not_its_own(
    started: DatabaseServer, new_server: NewServer
) -> None:
    other = new_server(started.name)
    other.launcher = Container(other.data, {}, layer=False)
    other.start()
    try:
        assert not set(started.pids()) & set(other.pids())
        started.kill()
        assert answers(engine_of(other))
    finally:
        other.kill()
        other.launcher.close()
