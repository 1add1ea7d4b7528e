"""A PostgreSQL in a container of podman, on what a container may have its data on."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dbcheck.agent.host import drives
from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import HostError
from dbcheck.cycle.cycle import run_cycle
from dbcheck.cycle.outcome import Outcome
from dbcheck.cycle.own_data import read_own_facts
from dbcheck.cycle.rig import Limits, Rig
from dbcheck.engines.registry import open_engine
from dbcheck.hosts.host import open_host
from dbcheck.judge.item import ItemId, Status
from dbcheck.lab.held_port import HeldPort
from dbcheck.model.depth import Depth
from dbcheck.model.host import TargetFacts
from dbcheck.model.verdict import Verdict
from dbcheck.ports.engine import Engine
from dbcheck.rows.table import LEDGER
from dbcheck.witness.log import FrameLogReader
from dbcheck.witness.url import open_witness
from tests.kit.nodes import site_of
from tests.kit.podman import Containers, containers_in
from tests.kit.refusals import refused
from tests.kit.rigs import SEED, Said, quick
from tests.kit.servers import answers
from tests.kit.waiting import wait_until
from tests.planted.site import HandSwitch

pytestmark = [pytest.mark.wide, pytest.mark.root]

HOME = "/var/lib/postgresql"
DATA = f"{HOME}/data"


@pytest.fixture
def containers(tmp_path: Path) -> Iterator[Containers]:
    with containers_in(tmp_path / "podman") as made:
        yield made


@contextlib.contextmanager
def server_in(
    containers: Containers,
    name: str,
    *options: str | Path,
    data: str = DATA,
    log: str = "",
) -> Iterator[Engine]:
    """Run a container; give the engine of its server once it takes queries."""
    held = HeldPort()
    containers.run(name, data, held.number, *options, log=log)
    engine = open_engine(
        f"postgresql+psycopg2://dbcheck@127.0.0.1:{held.number}/postgres"
    )
    wait_until(lambda: answers(engine), "the server takes queries")
    yield engine


def facts_of(engine: Engine) -> TargetFacts:
    with contextlib.closing(open_host("local:")) as host:
        return read_own_facts(host, engine.facts(), engine.places((LEDGER,)))


def test_each_container_has_its_data_where_its_volume_is(
    containers: Containers,
) -> None:
    """All have one path for it, and run at once."""
    bound = containers.folder / "bound"
    bound.mkdir()
    with (
        server_in(containers, "named", "--volume", f"files:{DATA}") as named,
        server_in(containers, "bind", "--volume", f"{bound}:{HOME}") as bind,
        server_in(containers, "own") as own,
        server_in(containers, "memory", "--mount", f"type=tmpfs,dst={HOME}") as memory,
    ):
        on_volume, on_bind, on_layer = map(facts_of, (named, bind, own))
        with refused(ErrorId.DATA_IN_CONTAINER_ALONE, HostError, naming="tmpfs"):
            facts_of(memory)
    store = containers.folder / "store" / "volumes" / "files" / "_data"
    assert on_volume.data_directory == str(store)
    assert on_bind.data_directory == str(bound / "data")
    assert on_layer.data.filesystem == "overlay"
    for facts in (on_volume, on_bind, on_layer):
        assert facts.container
        assert "libpod" in facts.container.cgroup
        assert (facts.unseen, facts.seen_otherwise, facts.view_unread) == ({}, {}, "")


@pytest.fixture
def searchable() -> Iterator[Path]:
    """A folder that the server's account can reach; pytest's own is not."""
    folder = Path(tempfile.mkdtemp(prefix="dbcheck-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def test_a_container_may_have_its_data_at_the_hosts_own_path(
    containers: Containers, searchable: Path
) -> None:
    """And its log at a path that it alone has."""
    data, log = searchable, containers.folder / "wal"
    log.mkdir()
    mounted = ("--volume", f"{data}:{data}", "--volume", f"{log}:/wal")
    with server_in(
        containers, "db", *mounted, data=f"{data}/pg", log="/wal/files"
    ) as engine:
        facts = facts_of(engine)
        busy = drives.survey([], f"{data}/pg", [], "/")["busy"]
    assert facts.container
    assert facts.data_directory == f"{data}/pg"
    assert facts.data.places["WAL"] == f"{log}/files"
    assert (facts.unseen, facts.seen_otherwise, facts.view_unread) == ({}, {}, "")
    assert len(busy) == 1


@contextlib.contextmanager
def rig_of(
    engine: Engine,
    folder: Path,
    cut: Callable[[], object],
    restore: Callable[[], object],
    return_s: float = 60,
) -> Iterator[Rig]:
    """Give a rig that asks this machine, as the host that it cuts would be asked."""
    with (
        contextlib.closing(
            open_witness(f"file:{folder}/witness", volatile=True)
        ) as witness,
        contextlib.closing(open_host("local:")) as host,
    ):
        yield Rig(
            site_of(engine, HandSwitch(cut, restore), host=host),
            witness,
            FrameLogReader(),
            Said(),
            folder / "runs",
            Limits(silence_s=3.0, cut_s=4.0, return_s=return_s),
            lab={"cut": "process"},
        )


def status(outcome: Outcome, name: ItemId) -> Status:
    (item,) = [item for item in outcome.judgement.items if item.id is name]
    return item.status


AS_IT_WAS, BY_ITSELF = "as it was", "at once"


@pytest.mark.parametrize(
    "comes_back", [AS_IT_WAS, BY_ITSELF, "as a copy of before the load"]
)
def test_a_container_that_is_killed_shows_its_process_alone(
    comes_back: str, containers: Containers, tmp_path: Path
) -> None:
    """A copy in place of the volume lacks the load's rows: that is no FAIL."""
    data, copy = containers.folder / "data", containers.folder / "copy"
    data.mkdir()

    def cut() -> None:
        containers.call("kill", "--signal", "KILL", "db")
        if comes_back == BY_ITSELF:  # as with a restart policy, before anybody looks
            containers.call("start", "db")

    def restore() -> None:
        if comes_back == BY_ITSELF:
            return
        if comes_back != AS_IT_WAS:
            data.rename(containers.folder / "lost")
            copy.rename(data)
        containers.call("start", "db")

    mounted = ("--volume", f"{data}:{DATA}")
    with server_in(containers, "db", *mounted) as engine:
        engine.prepare((LEDGER,))
        engine.checkpoint()
        subprocess.run(["cp", "-a", data, copy], check=True)
        (copy / "postmaster.pid").unlink()
        with rig_of(engine, tmp_path, cut, restore) as rig:
            outcome = run_cycle(rig, quick(), SEED)
    assert outcome.case.depth is not None
    assert outcome.case.host is not None
    if comes_back in (AS_IT_WAS, BY_ITSELF):
        assert outcome.case.host.log is not None
        assert "was not properly shut down" in outcome.case.host.log.text
        assert outcome.case.depth.depth is Depth.PROCESS, outcome.case.depth
        assert outcome.verdict is not Verdict.FAIL
        assert status(outcome, ItemId.NOT_RESTORED) is Status.PRESENT
    else:
        assert outcome.verdict is Verdict.INCONCLUSIVE, outcome.judgement
        assert status(outcome, ItemId.NOT_RESTORED) is Status.CONTRADICTED


def test_damaged_data_that_keep_a_container_from_starting_are_a_failure(
    containers: Containers, tmp_path: Path
) -> None:
    """No process has the data then, but the host has them still."""
    data = containers.folder / "data"
    data.mkdir()

    def restore() -> None:
        for log in (data / "pg_wal").glob("0*"):
            log.write_bytes(bytes(log.stat().st_size))
        containers.call("start", "db")

    with server_in(containers, "db", "--volume", f"{data}:{DATA}") as engine:
        engine.prepare((LEDGER,))

        def cut() -> None:
            containers.call("kill", "--signal", "KILL", "db")

        with rig_of(engine, tmp_path, cut, restore, return_s=8) as rig:
            outcome = run_cycle(rig, quick(), SEED)
    assert outcome.case.host is not None
    assert outcome.case.host.facts is not None, outcome.case.host.failure
    assert outcome.case.host.facts.data_directory == str(data)
    assert outcome.verdict is Verdict.FAIL, outcome.judgement
