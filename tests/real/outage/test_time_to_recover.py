"""The time to recover on real servers, beside an observer that only commits."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.engine import make_url

from dbcheck.cycle.cycle import run_cycle
from dbcheck.cycle.reconciling import reconcile_run
from dbcheck.engines.registry import open_engine
from dbcheck.judge.item import ItemId, Status
from dbcheck.lab.lab import Lab
from dbcheck.lab.spec import LabSpec
from dbcheck.model.verdict import Verdict
from dbcheck.outage.process import Job, ProbeProcess
from dbcheck.ports.site import Node
from dbcheck.rows.table import OUTAGE
from tests.kit.clusters import cluster_of, cycle, promoting, status
from tests.kit.lab_access import execute_on
from tests.kit.observer import TABLE, observing, outage_of, record_of, require_agreement
from tests.kit.rigs import FAMILIES, SEED, Bench, bench, quick
from tests.kit.waiting import wait_until


@pytest.fixture(params=FAMILIES, scope="module")
def here(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Bench]:
    folder = tmp_path_factory.mktemp(request.param)
    with bench(LabSpec(request.param, cut="process"), folder) as made:
        yield made


def test_it_agrees_with_an_observer_that_only_commits(here: Bench) -> None:
    with observing(here.lab) as seen:
        outcome = run_cycle(here.rig, quick(), SEED)
    require_agreement(outcome, seen)
    found = record_of(outcome)
    cut = outcome.case.cut
    assert cut is not None and cut.asked_us is not None
    # A commit before the cut would have flushed the log of the load.
    assert found.began_us is not None and found.began_us > cut.asked_us
    assert outcome.verdict is Verdict.PASS, outcome.judgement
    here.execute(f"drop table {TABLE}")


def test_rows_of_the_probes_are_its_own_and_clean_drops_them(here: Bench) -> None:
    outcome = run_cycle(here.rig, quick(), SEED + 1)
    engine = here.rig.site.writer.engine
    facts = engine.facts()
    rows = [
        (int(record["session"]), int(record["seq"]))
        for _, batch in engine.survivors([OUTAGE], server=facts)
        for record in batch.records
        if record["epoch"] == outcome.manifest.epoch
    ]
    (probed,) = record_of(outcome).probed
    assert {(0, ack.seq) for ack in probed.acks} <= set(rows)
    assert outcome.found is not None and not outcome.found.foreign
    assert any(name.endswith(OUTAGE.name) for name in engine.drop())
    assert not engine.present([OUTAGE])


def test_a_table_that_cannot_be_made_costs_the_figure_alone(here: Bench) -> None:
    engine = here.rig.site.writer.engine
    engine.drop()
    schema = "dbcheck." if here.engine == "postgresql" else ""
    if schema:
        here.execute("create schema dbcheck")
    here.execute(f"create table {schema}{OUTAGE.name} (id integer)")  # not dbcheck's
    try:
        outcome = run_cycle(here.rig, quick(), SEED + 2)
    finally:
        here.execute(f"drop table {schema}{OUTAGE.name}")
    assert outcome.verdict is Verdict.PASS, outcome.judgement
    outage = outage_of(outcome)
    assert outage.seconds is None
    assert outage.why.startswith("its table cannot be made: ")
    assert "time to recover is not measured" in here.said.text


def test_an_address_that_leads_elsewhere_is_found_before_the_load(here: Bench) -> None:
    """Here to another database, or to nothing."""
    url = make_url(here.lab.target_url)
    for other in (url.set(database="elsewhere"), url.set(port=1)):
        client = open_engine(other.render_as_string(), here.lab.password)
        if here.engine == "postgresql" and other.database == "elsewhere":
            here.execute("create database elsewhere")
        rig = dataclasses.replace(here.rig, client=client)
        outage = outage_of(run_cycle(rig, quick(), SEED + 3))
        assert outage.seconds is None
        assert not outage.addresses
        assert "the address of the clients" in outage.why


def test_a_client_that_was_interrupted_measured_nothing(here: Bench) -> None:
    started = here.cut_cycle()
    outage = outage_of(reconcile_run(here.rig, started.run, started.manifest))
    assert outage.seconds is None
    assert "interrupted" in outage.why


def test_the_process_dies_with_its_client_and_with_nothing_else(
    here: Bench, tmp_path: Path
) -> None:
    """The client is killed: the kernel closes its end of their channel."""
    source = (
        "import sys, time\n"
        "from dbcheck.engines.registry import open_engine\n"
        "from dbcheck.outage.process import Job, ProbeProcess\n"
        "process = ProbeProcess(Job({'': open_engine(sys.argv[1], None)}, 1))\n"
        "process.await_start()\n"
        "process.begin()\n"
        "assert process.show() is not None\n"
        "print(process.pid, flush=True)\n"
        "time.sleep(600)\n"
    )
    client = subprocess.Popen(
        [sys.executable, "-c", source, here.lab.target_url],
        stdout=subprocess.PIPE,
        env=dict(os.environ),
    )
    with client:
        assert client.stdout is not None
        pid = int(client.stdout.readline())
        assert _is_running(pid)
        client.send_signal(signal.SIGKILL)
        client.wait()
    wait_until(lambda: not _is_running(pid), "the end of the process")


def test_a_process_that_is_killed_is_a_reason_and_no_error(here: Bench) -> None:
    engine = open_engine(here.lab.target_url, here.lab.password)
    process = ProbeProcess(Job({"": engine}, 1))
    try:
        process.await_start()
        process.begin()
        assert process.show() is not None
        os.kill(process.pid, signal.SIGKILL)
        assert process.end() is None
        assert "the process of the probes ended" in process.failure
    finally:
        process.kill()


def _is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def test_commits_through_a_cluster_are_answered_once_a_standby_took_over(
    tmp_path: Path,
) -> None:
    with (
        cluster_of(tmp_path) as (cluster, rig),
        observing(*cluster.labs.values()) as on,
    ):
        outcome = cycle(rig)
        outage = outage_of(outcome)
        require_agreement(outcome, on)
    assert outage.by == outcome.manifest.nodes["node2"].target
    assert len(outage.addresses) == 2
    assert outage.promotion_s is not None and outage.recovering_s is not None
    assert outage.promotion_s > 1.0  # dbcheck waits until the standby comes no further
    assert outage.seconds == pytest.approx(
        outage.promotion_s + outage.recovering_s, abs=0.02
    )
    assert not outage.not_lasting


def test_an_old_writer_that_answers_is_no_recovery(tmp_path: Path) -> None:
    """Its acks are counted, and show that it was not off."""
    with cluster_of(tmp_path, synchronous_standby_names="") as (cluster, rig):
        nodes = rig.site.nodes
        old = cluster.labs["node1"]

        def late(_name: str, node: Node) -> None:
            cluster.take_links_down()  # else the standby would receive them
            nodes["node1"].power.restore()
            rows = f"select count(*) from dbcheck.{OUTAGE.name}"
            wait_until(lambda: _count(old, rows) > 0, "an answer of the old writer")
            engine: Any = node.engine
            engine.promote()

        outcome = cycle(promoting(rig, late))
    outage = outage_of(outcome)
    writer, standby = (outcome.manifest.nodes[name].target for name in nodes)
    assert outage.not_lasting[writer] >= 1
    assert set(outage.not_lasting) == {writer}
    assert outage.by == standby
    first_of_old = record_of(outcome).probed[0].acks[0]
    assert outcome.load is not None and outcome.load.last_ack_us is not None
    assert outage.seconds is not None
    assert outage.seconds > (first_of_old.acked_us - outcome.load.last_ack_us) / 1e6
    assert outcome.verdict is Verdict.INCONCLUSIVE
    assert status(outcome, ItemId.WRITER_OFF) is Status.CONTRADICTED
    reason = next(
        one.reason for one in outcome.judgement.items if one.id is ItemId.WRITER_OFF
    )
    assert "got an answer after the cut, and node2 lacks them" in reason


def _count(lab: Lab, statement: str) -> int:
    with contextlib.suppress(Exception):  # it has no such answer while it starts
        ((count,),) = execute_on(lab, statement)
        return int(count)
    return 0


def test_the_address_of_the_clients_is_where_it_is_measured(tmp_path: Path) -> None:
    """Here several hosts of libpq: the one that takes writes answers."""
    with cluster_of(tmp_path) as (cluster, rig):
        first, second = cluster.labs.values()
        url = first.target_url
        hosts = ",".join(f"{_host(lab)}" for lab in (first, second))
        ports = ",".join(str(_port(lab)) for lab in (first, second))
        base, _, database = url.rpartition("/")
        user = base.partition("//")[2].partition("@")[0]
        several = (
            f"postgresql+psycopg2://{user}@/{database}?host={hosts}&port={ports}"
            "&target_session_attrs=read-write"
        )
        client = open_engine(several, first.password)
        outcome = cycle(dataclasses.replace(rig, client=client))
    outage = outage_of(outcome)
    assert outage.by_clients and outage.seconds is not None, outage
    assert outage.addresses == (client.target,)
    assert outcome.manifest.client_target == client.target


def _host(lab: Lab) -> str:
    return lab.target_url.partition("@")[2].partition(":")[0]


def _port(lab: Lab) -> int:
    return int(lab.target_url.partition("@")[2].partition(":")[2].partition("/")[0])
