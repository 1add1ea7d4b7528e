"""The time to recover behind what applications have before their servers."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.engine import make_url

from dbcheck.cycle import outage as outages
from dbcheck.cycle.cycle import finish_cycle
from dbcheck.cycle.outage import OutageWatch
from dbcheck.cycle.outcome import Outcome
from dbcheck.cycle.preflight.before_load import Started, run_preflight
from dbcheck.cycle.rig import Rig
from dbcheck.engines.registry import open_engine
from dbcheck.judge.item import ItemId, Status
from dbcheck.lab.clusters.cluster import ClusterLab
from dbcheck.lab.clusters.spec import PATRONI
from dbcheck.lab.lab import Lab
from dbcheck.lab.spec import LabSpec
from dbcheck.model.verdict import Verdict
from dbcheck.ports.site import Node
from dbcheck.rows.table import OUTAGE
from tests.kit.clusters import WORKLOAD, cluster_of, cycle, promoting, status
from tests.kit.frontends import (
    PrimaryChecks,
    haproxy,
    pgbouncer,
    port_of,
    rest_port_of,
    target_at,
)
from tests.kit.lab_access import connect, execute_on
from tests.kit.observer import (
    Observer,
    observing,
    outage_of,
    record_of,
    require_agreement,
)
from tests.kit.rigs import SEED, Said, bench, quick
from tests.kit.virtual_address import PORT, virtual_address
from tests.kit.waiting import wait_until

IS_PRIMARY = {
    "postgresql": ("select not pg_is_in_recovery()", True),
    "mariadb": ("select @@global.read_only", 0),
    "mysql": ("select @@global.read_only", 0),
}


@contextlib.contextmanager
def checked(folder: Path, cluster: ClusterLab) -> Iterator[int]:
    """Run HAProxy that leads to the node which takes writes; give its port."""
    with ExitStack() as stack:
        nodes = {}
        for name, lab in cluster.labs.items():
            checks = PrimaryChecks(partial(_takes_writes, lab))
            stack.callback(checks.close)
            nodes[name] = (port_of(lab), checks.port)
        yield stack.enter_context(haproxy(folder, nodes))


def _takes_writes(lab: Lab) -> bool:
    statement, wanted = IS_PRIMARY[lab.spec.engine]
    ((found,),) = execute_on(lab, statement)
    return bool(found == wanted)


def through(rig: Rig, lab: Lab, port: int, **changes: str) -> tuple[Rig, str]:
    """Return *rig* whose clients connect to *port*, and their URL."""
    url = target_at(lab, port, **changes)
    return dataclasses.replace(rig, client=open_engine(url, lab.password)), url


@pytest.mark.parametrize(
    "engine",
    [
        "postgresql",
        pytest.param("mariadb", marks=pytest.mark.wide),
        pytest.param("mysql", marks=pytest.mark.wide),
    ],
)
def test_a_proxy_that_follows_the_writer_agrees_with_an_observer(
    engine: str, tmp_path: Path
) -> None:
    with (
        cluster_of(tmp_path, engine=engine) as (cluster, rig),
        checked(tmp_path, cluster) as port,
    ):
        first = cluster.labs["node1"]
        rig, url = through(rig, first, port)
        wait_until(lambda: _answers(url, first.password), "HAProxy leads to a writer")
        with observing(first, through=url) as seen:
            outcome = cycle(rig)
    require_agreement(outcome, seen)
    outage = outage_of(outcome)
    assert outage.by_clients
    assert outage.addresses == (outage.by,)
    assert not outage.not_lasting
    assert outcome.verdict is Verdict.PASS, outcome.judgement


@pytest.mark.wide
def test_a_proxy_that_asks_patroni_for_the_leader_agrees_with_an_observer(
    tmp_path: Path,
) -> None:
    """It is checked as Patroni's documentation says, over TLS as the lab wants it."""
    with cluster_of(tmp_path, promoted_by=PATRONI) as (cluster, rig), ExitStack() as it:
        files = cluster._authority.issue_certificate("haproxy").write(tmp_path / "tls")
        client = tmp_path / "client.pem"
        client.write_text(files.certificate.read_text() + files.key.read_text())
        tls = f"check-ssl verify required ca-file {files.authority} crt {client}"
        nodes = {n: (port_of(o), rest_port_of(o)) for n, o in cluster.labs.items()}
        options = f"on-marked-down shutdown-sessions {tls}"
        port = it.enter_context(haproxy(tmp_path, nodes, options))
        first = cluster.labs["node1"]
        rig, url = through(rig, first, port)
        wait_until(lambda: _answers(url, first.password), "HAProxy leads to the leader")
        with observing(first, through=url) as seen:
            outcome = cycle(rig)
    require_agreement(outcome, seen)
    outage = outage_of(outcome)
    assert outage.by_clients and not outage.not_lasting
    assert outage.seconds is not None and outage.seconds > 5  # the lock's time
    assert outcome.after.reader_name == "node2"
    assert outcome.verdict is Verdict.PASS, outcome.judgement


def _answers(url: str, password: str) -> bool:
    with contextlib.suppress(Exception):  # whatever the driver raises of a proxy
        connect(url, password).close()
        return True
    return False


def explain_not_measured(rig: Rig, started: Started) -> str:
    """Return what is said before the load of what the clients of *rig* use."""
    said = Said()
    rig = dataclasses.replace(rig, listener=said)
    with OutageWatch(rig, started.run, started.manifest):
        pass
    return " ".join(said.text.split())


def test_proxies_that_lead_to_a_standby_or_to_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the load that is found; a proxy that stays with the old writer is not."""
    monkeypatch.setattr(outages, "LASTING_S", 3.0)
    with cluster_of(tmp_path) as (cluster, rig), ExitStack() as stack:
        ports = {name: port_of(lab) for name, lab in cluster.labs.items()}
        made = {}
        for name, port in {**ports, "nobody": 1}.items():
            folder = tmp_path / name
            folder.mkdir()
            front = stack.enter_context(haproxy(folder, {name: (port, None)}))
            made[name], _ = through(rig, cluster.labs["node1"], front)
        started = run_preflight(rig, WORKLOAD, seed=1)
        standby = explain_not_measured(made["node2"], started)
        assert "through the address of the clients (postgresql" in standby
        assert "takes no writes: it follows another server" in standby
        nobody = explain_not_measured(made["nobody"], started)
        assert "no commit was possible" in nobody
        assert "server closed the connection unexpectedly" in nobody
        outcome = finish_cycle(made["node1"], started)
    outage = outage_of(outcome)
    assert outage.seconds is None
    assert outage.least_s is not None and outage.least_s > 1
    assert outage.why.startswith("no commit was answered after the cut; cannot connect")
    assert "server closed the connection unexpectedly" in outage.why
    assert outcome.verdict is Verdict.PASS, outcome.judgement


@pytest.mark.wide
def test_a_proxy_that_first_leads_to_the_old_writer_counts_what_lasts(
    tmp_path: Path,
) -> None:
    """The old writer answers, and a check that trusts it: two writers at one time."""
    with (
        cluster_of(tmp_path, synchronous_standby_names="") as (cluster, rig),
        checked(tmp_path, cluster) as port,
    ):
        old = cluster.labs["node1"]
        rig, _ = through(rig, old, port)
        power = rig.site.nodes["node1"].power

        def late(_name: str, node: Node) -> None:
            cluster.take_links_down()
            power.restore()
            rows = f"select count(*) from dbcheck.{OUTAGE.name}"
            wait_until(lambda: _count(old, rows) > 1, "an answer of the old writer")
            power.cut()
            engine: Any = node.engine
            engine.promote()

        outcome = cycle(promoting(rig, late))
    outage = outage_of(outcome)
    assert outage.seconds is not None
    (acked, *_) = record_of(outcome).probed[0].acks
    assert acked.lasted is False
    assert sum(outage.not_lasting.values()) >= 1
    assert outcome.load is not None and outcome.load.last_ack_us is not None
    assert outage.seconds > (acked.acked_us - outcome.load.last_ack_us) / 1e6
    assert outcome.verdict is Verdict.INCONCLUSIVE
    assert status(outcome, ItemId.WRITER_OFF) is Status.CONTRADICTED


def _count(lab: Lab, statement: str) -> int:
    with contextlib.suppress(Exception):  # it has no such answer while it starts
        ((count,),) = execute_on(lab, statement)
        return int(count)
    return 0


@pytest.mark.parametrize(
    "pool_mode",
    [
        "transaction",
        pytest.param("session", marks=pytest.mark.wide),
        pytest.param("statement", marks=pytest.mark.wide),
    ],
)
def test_a_pooler_agrees_with_an_observer_and_keeps_its_connections_clean(
    pool_mode: str, tmp_path: Path
) -> None:
    """PgBouncer answers each login itself, also while there is no server."""
    with (
        bench(LabSpec("postgresql", cut="process"), tmp_path / "lab") as here,
        pgbouncer(here.lab, pool_mode, server_login_retry=1) as port,
        pgbouncer(here.lab, pool_mode, 1, query_wait_timeout=1) as empty,
    ):
        started = run_preflight(here.rig, quick(), SEED)
        without, _ = through(here.rig, here.lab, empty)
        why = explain_not_measured(without, started)
        assert "no commit was possible through the address of the clients" in why
        refused, _ = through(here.rig, here.lab, port, options="-c work_mem=1MB")
        why = explain_not_measured(refused, started)
        assert "unsupported startup parameter: options" in why
        rig, url = through(here.rig, here.lab, port)
        with observing(here.lab, through=url) as seen:
            outcome = finish_cycle(rig, started)
        require_agreement(outcome, seen)
        with contextlib.closing(connect(url, here.lab.password)) as link:
            cursor = link.cursor()
            cursor.execute("show search_path")
            assert cursor.fetchone() == ('"$user", public',)
            cursor.execute("select count(*) from pg_prepared_statements")
            assert cursor.fetchone() == (0,)
    outage = outage_of(outcome)
    assert outage.by_clients and not outage.not_lasting
    assert (outage.hung, outage.unknown) == (0, 0)
    assert outcome.verdict is Verdict.PASS, outcome.judgement
    assert "server login has been failing" in record_of(outcome).probed[0].error or (
        "server_login_retry" in record_of(outcome).probed[0].error
    )


def url_at(lab: Lab, address: str) -> str:
    """Return the URL of a lab's server at an address that moves."""
    url = make_url(lab.target_url).set(host=address, port=PORT)
    return url.render_as_string(hide_password=False)


def require_moved(outcome: Outcome, seen: Observer) -> None:
    """Check a time to recover through an address that moved, and the verdict."""
    require_agreement(outcome, seen)
    outage = outage_of(outcome)
    assert outage.by_clients and not outage.not_lasting
    assert outage.spread_s is not None and outage.spread_s < 8
    assert outcome.verdict is Verdict.PASS, outcome.judgement


@pytest.mark.parametrize(
    "announced",
    [True, pytest.param(False, marks=pytest.mark.wide)],
    ids=["announced", "silent"],
)
@pytest.mark.root
def test_an_address_that_moves_to_the_new_writer(
    *, announced: bool, tmp_path: Path
) -> None:
    """Its old host falls silent: nobody refuses a connection, and none is broken."""
    with cluster_of(tmp_path) as (cluster, rig):
        old, new = cluster.labs.values()
        with virtual_address((port_of(old), port_of(new))) as moving:
            url = url_at(old, moving.address)
            rig = dataclasses.replace(rig, client=open_engine(url, old.password))

            def late(_name: str, node: Node) -> None:
                moving.pull()
                wait_until(moving.is_waited_for, "a try that hears nothing")
                engine: Any = node.engine
                engine.promote()
                moving.move(announced=announced)

            with observing(old, through=url) as seen:
                outcome = cycle(promoting(rig, late))
    require_moved(outcome, seen)


@pytest.mark.wide
@pytest.mark.root
def test_an_address_that_keepalived_moves_to_the_new_writer(tmp_path: Path) -> None:
    """Its old host falls silent; the other one takes the address, and announces it."""
    with cluster_of(tmp_path) as (cluster, rig):
        old, new = cluster.labs.values()
        with virtual_address((port_of(old), port_of(new)), tmp_path) as moving:
            url = url_at(old, moving.address)
            rig = dataclasses.replace(rig, client=open_engine(url, old.password))

            def late(_name: str, node: Node) -> None:
                assert moving.has_address(0) and not moving.has_address(1)
                moving.pull()
                wait_until(lambda: moving.has_address(1), "keepalived moves it")
                engine: Any = node.engine
                engine.promote()

            with observing(old, through=url) as seen:
                outcome = cycle(promoting(rig, late))
    require_moved(outcome, seen)


def test_it_is_said_at_once_that_the_new_writer_waits_for_a_standby(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two nodes none is left, and the new writer is set to wait for one."""
    monkeypatch.setattr(outages, "LASTING_S", 3.0)
    monkeypatch.setattr(outages, "SHOWN_S", 100.0)
    with cluster_of(tmp_path) as (cluster, rig):
        standby = cluster.labs["node2"]

        def promote(_name: str, node: Node) -> None:
            execute_on(standby, "alter system set synchronous_standby_names = 'node1'")
            execute_on(standby, "select pg_reload_conf()")
            engine: Any = node.engine
            engine.promote()

        said = Said()
        rig = dataclasses.replace(promoting(rig, promote), listener=said)
        outcome = cycle(rig)
    outage = outage_of(outcome)
    assert outage.seconds is None
    text = " ".join(said.text.split())
    assert "for a commit on node2: each waits for a standby, and node2 has none" in text
    assert not outcome.result.losses
