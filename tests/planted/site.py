"""A server of the test's own, whose data folder can be copied, moved and damaged."""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import pytest
from sqlalchemy.engine import make_url

from dbcheck.cycle.cycle import finish_cycle
from dbcheck.cycle.outcome import Outcome
from dbcheck.cycle.preflight.before_load import run_preflight
from dbcheck.cycle.rig import Limits, Rig
from dbcheck.engines.registry import open_engine
from dbcheck.lab.servers.base import DatabaseServer
from dbcheck.model.cut import Cut, CutClass, PowerState, SwitchKind
from dbcheck.model.server import ServerFacts
from dbcheck.ports.engine import Engine
from dbcheck.ports.host import TargetHost
from dbcheck.ports.site import PodSource
from dbcheck.rows.workload import Workload
from dbcheck.witness.log import FrameLogReader
from dbcheck.witness.url import open_witness
from tests.kit.lab_access import connect
from tests.kit.nodes import site_of, with_node
from tests.kit.rigs import SEED, TABLES, Said, quick, store_manifest
from tests.kit.servers import SERVERS, engine_of, server_in, skip_without_server

LIMITS = Limits(silence_s=3.0, cut_s=4.0, return_s=60)


class HandSwitch:
    """Does what it is given where it should cut and restore.

    exact: it sees the power go, as a lab's switch does.
    """

    kind = SwitchKind.EXEC
    attended = False
    cut_class = CutClass.UNKNOWN

    def __init__(
        self,
        cut: Callable[[], object],
        restore: Callable[[], object],
        *,
        exact: bool = True,
    ) -> None:
        self._cut, self._restore, self._exact = cut, restore, exact

    def state(self) -> PowerState:
        """Return that it does not know."""
        return PowerState.UNKNOWN

    def cut(self) -> Cut:
        """Do the one thing."""
        asked_us = time.monotonic_ns() // 1000
        self._cut()
        done_us = time.monotonic_ns() // 1000
        return Cut(asked_us, done_us if self._exact else None)

    def restore(self) -> None:
        """Do the other."""
        self._restore()

    def failure(self) -> str | None:
        """Return that nothing certainly failed."""
        return None


class _Unlogged:
    """An engine whose server does not say where its log is."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def facts(self) -> ServerFacts:
        return replace(self._engine.facts(), server_log="")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)


@dataclass
class Site:
    """A server, and the rig that has it as its target.

    clean:   a copy of its data folder from before any test.
    changed: a fault did more to the data folder than write to dbcheck's tables.
    """

    server: DatabaseServer
    rig: Rig
    clean: Path
    changed: bool = False

    @property
    def name(self) -> str:
        """The kind of server."""
        return self.server.name

    @property
    def table(self) -> str:
        """The ledger's name."""
        return TABLES[self.name]

    def connect(self) -> Any:
        """Return a connection of the plain driver."""
        return connect(self.server.url, self.server.password)

    def execute(self, statement: str, *values: object) -> list[Any]:
        """Run a statement over the plain driver; return its rows."""
        with contextlib.closing(self.connect()) as connection:
            cursor = connection.cursor()
            cursor.execute(statement, values or None)
            rows = list(cursor.fetchall()) if cursor.description else []
            cursor.close()
            return rows

    def put_back(self) -> None:
        """Have the server run with nothing that an earlier test did."""
        if self.changed or self.rig.site.writer.engine.ready() is not None:
            self.server.kill()
            self.replace_data(self.clean)
            self.server.start()
            self.changed = False
        self.rig.site.writer.engine.drop()

    def replace_data(self, other: Path) -> None:
        """Put a copy of another data folder in the place of the server's."""
        self.changed = True
        shutil.rmtree(self.server.data)
        copy_folder(other, self.server.data)

    def copy_data(self, name: str) -> Path:
        """Copy the data folder of the server, which must be down; return the copy."""
        copy = self.clean.parent / name
        shutil.rmtree(copy, ignore_errors=True)
        copy_folder(self.server.data, copy)
        return copy

    def through(self, port: int) -> Engine:
        """Return the engine that connects to another port, in clear.

        MariaDB offers TLS by itself from 11.4 on, and a proxy is to read what passes.
        """
        url = make_url(self.server.url).set(port=port)
        if self.name == "mariadb":
            url = url.update_query_dict({"ssl_disabled": "true"})
        return open_engine(url.render_as_string(), self.server.password)

    def cycle(
        self,
        cut: Callable[[], object] | None = None,
        restore: Callable[[], object] | None = None,
        *,
        engine: Engine | None = None,
        exact: bool = True,
        workload: Workload | None = None,
        limits: Limits = LIMITS,
        lab: bool = True,
        host: TargetHost | None = None,
        log: bool = False,
        pods: PodSource | None = None,
    ) -> Outcome:
        """Run a whole cycle; by default the server is killed and started again.

        lab: the run says that it was on a lab, where a kill is all that a cut does.
        host: the server's host, asked for what it knows; log: also for the log, which
        nobody finds otherwise.
        pods: where Kubernetes says that the server is, None if it is not in a pod.
        """
        switch = HandSwitch(
            cut or self.server.kill, restore or self.server.start, exact=exact
        )
        asked = engine or self.rig.site.writer.engine
        rig = with_node(
            replace(self.rig, limits=limits),
            power=switch,
            engine=asked if log else cast(Engine, _Unlogged(asked)),
            host=host,
            log_path=str(self.server.log_file) if log else "",
            pods=pods,
        )
        started = run_preflight(rig, workload or quick(), SEED)
        if not lab:
            manifest = replace(started.manifest, lab={})
            store_manifest(started.run, manifest)
            started = replace(started, manifest=manifest)
        return finish_cycle(rig, started)


def spoil(site: Site, name: str, change: Callable[[Path], None]) -> None:
    """Change the file of a relation where no checksum shows it."""
    ((path,),) = site.execute(f"select pg_relation_filepath('dbcheck.{name}')")
    site.server.stop()
    for step in ("--disable", "--enable"):
        subprocess.run(
            [str(site.server.find("pg_checksums")), "-D", str(site.server.data), step],
            check=True,
            capture_output=True,
            user=site.server.accounts[0] if os.geteuid() == 0 else None,
        )
        if step == "--disable":
            change(site.server.data / str(path))
    site.server.start()


def copy_folder(source: Path, copy: Path) -> None:
    """Copy a folder with its owners."""
    subprocess.run(["cp", "-a", str(source), str(copy)], check=True)


# No checkpoint or VACUUM by itself: after one, what a test plants has other effects.
UNASKED = {
    "postgresql": {
        "checkpoint_timeout": "1h",
        "max_wal_size": "64GB",
        "autovacuum": "off",
    }
}


@contextlib.contextmanager
def new_site(engine: str, folder: Path) -> Iterator[Site]:
    """Give a server that was started once; *folder* is for the witness and the runs."""
    base = Path(tempfile.mkdtemp(prefix="dbcheck-"))  # pytest's own is for us alone
    base.chmod(0o755)
    server = server_in(base, SERVERS[engine])
    server.settings |= UNASKED.get(engine, {})
    witness = open_witness(f"file:{folder}/witness", volatile=True)
    try:
        server.initialise()
        server.start()
        server.stop()
        copy_folder(server.data, base / "clean")
        rig = Rig(
            site_of(engine_of(server), HandSwitch(server.kill, server.start)),
            witness,
            FrameLogReader(),
            Said(),
            folder / "runs",
            LIMITS,
            lab={"cut": "process"},
        )
        yield Site(server, rig, base / "clean")
    finally:
        witness.close()
        server.kill()
        shutil.rmtree(base)


@pytest.fixture(scope="package")
def sites(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Site]]:
    """Give the site of an engine, made once: that takes seconds.

    Its witness's agent must not outlive the package: other tests look for agents.
    """
    with contextlib.ExitStack() as stack:
        yield functools.cache(
            lambda engine: stack.enter_context(
                new_site(engine, tmp_path_factory.mktemp("site"))
            )
        )


@pytest.fixture(scope="package")
def own_site(
    request: pytest.FixtureRequest, sites: Callable[[str], Site]
) -> Iterator[Site]:
    """A server that was started once; the parameter is the engine."""
    skip_without_server(request.param)
    yield (found := sites(request.param))
    found.server.kill()


@pytest.fixture
def site(own_site: Site) -> Site:
    """The same server with nothing that an earlier test did."""
    own_site.put_back()
    return own_site
