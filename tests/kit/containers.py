"""Real servers in mount namespaces of their own, as services and containers have."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from dbcheck.cycle.host import end_host_canaries, start_host_inspection
from dbcheck.cycle.own_data import read_own_facts
from dbcheck.hosts.host import open_host
from dbcheck.lab import syscalls
from dbcheck.lab.servers.base import DatabaseServer
from dbcheck.model.host import HostBefore
from dbcheck.rows.table import LEDGER
from tests.kit.drive_mounts import MS_SLAVE
from tests.kit.servers import engine_of

MS_BIND = 4096  # mount(2), linux/mount.h


@pytest.fixture
def in_memory() -> Iterator[Path]:
    """A folder on another filesystem, which loses all with the power."""
    folder = Path(tempfile.mkdtemp(prefix="dbcheck-", dir="/dev/shm"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@contextlib.contextmanager
def started_apart(
    server: DatabaseServer, mounts: Mapping[Path, Path], root: Path | None = None
) -> Iterator[None]:
    """Run a server in a mount namespace of its own.

    mounts: path -> what is there.  root: a folder that is another one for the server,
    in memory, with nothing but *mounts* in it.
    """
    over = threading.Event()

    def run(is_up: threading.Event) -> None:
        try:
            syscalls.unshare(syscalls.CLONE_NEWNS)
            syscalls.mount("none", "/", None, syscalls.MS_REC | MS_SLAVE)
            if root is not None:
                mount_root(root, mounts)
            for path, source in () if root else mounts.items():
                syscalls.mount(str(source), str(path), None, MS_BIND)
            server.start()  # it ends with this thread
        finally:
            is_up.set()
        over.wait()
        server.kill()

    with ThreadPoolExecutor(1) as pool:
        is_up = threading.Event()
        running = pool.submit(run, is_up)
        is_up.wait()
        try:
            yield
        finally:
            over.set()
            running.result()


def mount_root(root: Path, mounts: Mapping[Path, Path]) -> None:
    """Mount a new folder in memory at *root*, with *mounts* in it, for this thread.

    What is mounted there may lie below *root*, and so is held open before.
    """
    with contextlib.ExitStack() as opened:
        handles = {}
        for path, source in mounts.items():
            handles[path] = os.open(source, os.O_PATH)
            opened.callback(os.close, handles[path])
        syscalls.mount("none", str(root), "tmpfs", 0, "mode=755")
        for path, handle in handles.items():
            if not path.exists():
                path.mkdir(parents=True)
            syscalls.mount(f"/proc/self/fd/{handle}", str(path), None, MS_BIND)


def inspected(server: DatabaseServer) -> HostBefore:
    """Return what a run finds of the host before its load."""
    engine = engine_of(server)
    with contextlib.closing(open_host("local:")) as host:
        facts, places = engine.facts(), engine.places((LEDGER,))
        found = read_own_facts(host, facts, places, engine.mark_data)
        before, canaries = start_host_inspection(host, "", found)
        end_host_canaries(host, canaries, remove=True)
    return before
