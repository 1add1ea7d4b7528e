"""dbcheck campaign GROUP: a cluster that is cut, rebuilt, and cut again."""

from __future__ import annotations

import json
import re
import secrets
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.engine import make_url

from dbcheck.base.error_ids import ErrorId
from dbcheck.campaign.folder import CampaignFolder
from dbcheck.cycle.cycle import run_control
from dbcheck.cycle.host import end_canaries
from dbcheck.cycle.preflight.before_load import Started, run_preflight
from dbcheck.cycle.rig import Rig
from dbcheck.engines.postgresql.engine import PostgresqlEngine
from dbcheck.engines.postgresql.replication import find_missing_for_control
from dbcheck.lab.clusters.replication import run_statements
from dbcheck.lab.lab import Lab
from dbcheck.lab.servers.base import USER
from dbcheck.load.sessions import commit
from dbcheck.model.cluster import Weakens
from dbcheck.model.verdict import ControlOutcome, CycleVerdict
from tests.kit.clusters import WORKLOAD, cluster_of, dbcheck
from tests.kit.rebuilding import REPLACED, REWINDS, WAITS, write_inventory
from tests.kit.refusals import refused
from tests.kit.waiting import wait_until

# Gives the old writer of MySQL a row that no other node has.
# The id is none of a row that is still to come from the other node.
ADDS = """
run_statements(lab, ("set global super_read_only = off", "set global read_only = off"))
ledger = make_url(lab.target_url).database + ".ledger"
run_statements(lab, (
    f"insert into {ledger} (id, epoch, session, seq, part, payload, checksum)"
    " select id + 1000000, epoch, session, seq + 1000000, part, payload, checksum"
    f" from {ledger} limit 1", "commit"))
"""


def campaign(file: Path, folder: Path, cuts: int) -> subprocess.CompletedProcess[str]:
    return dbcheck(
        *("campaign", "pair", "--cuts", cuts, "--seed", 3, "--json"),
        *("--inventory", file, "--folder", folder),
    )


def list_nodes(done: subprocess.CompletedProcess[str]) -> list[tuple[str, str]]:
    """Return the writer and the reader of each cycle, all of which passed."""
    assert done.returncode == 0, done.stdout + done.stderr
    (result,) = json.loads(done.stdout)["targets"]
    assert result["name"] == "pair"
    assert {cycle["verdict"] for cycle in result["cycles"]} == {"PASS"}
    return [(cycle["writer"], cycle["reader"]) for cycle in result["cycles"]]


def test_the_writer_is_followed_from_cut_to_cut(tmp_path: Path) -> None:
    with cluster_of(tmp_path) as (cluster, _):
        file = write_inventory(tmp_path, cluster, REWINDS + WAITS)
        done = campaign(file, tmp_path / "pair", 3)
        nodes = list_nodes(done)
        assert nodes == [("node1", "node2"), ("node2", "node1"), ("node1", "node2")]
        # A later campaign begins with the node that takes writes now.
        done = campaign(file, tmp_path / "later", 1)
    assert list_nodes(done) == [("node2", "node1")]


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("engine", "promises"),
    [
        ("postgresql", ("writer", "writer-gone")),
        pytest.param(
            *("postgresql", ("writer", "writer-gone", "all", "all-writer-gone")),
            marks=pytest.mark.wide,
        ),
        pytest.param(
            *("mysql", ("writer", "writer-gone", "all")), marks=pytest.mark.wide
        ),
        pytest.param(
            *("mariadb", ("writer", "writer-gone", "all")), marks=pytest.mark.wide
        ),
    ],
)
def test_each_cut_tests_one_of_several_promises(
    tmp_path: Path, engine: str, promises: tuple[str, ...]
) -> None:
    """Whoever leads next is the one that was read, the writer itself or another."""
    folder = tmp_path / "pair"
    with cluster_of(tmp_path, engine=engine) as (cluster, _):
        given: dict[str, Any] = {"dbcheck_survives": list(promises)}
        file = write_inventory(tmp_path, cluster, REPLACED[engine], **given)
        done = campaign(file, folder, len(promises))
    assert done.returncode == 0, done.stdout + done.stderr
    (result,) = json.loads(done.stdout)["targets"]
    counted = {
        name: each["statistics"]["cuts"] for name, each in result["promises"].items()
    }
    assert counted == dict.fromkeys(promises, 1)
    assert result["statistics"]["loss_ppm_max"] == 1_000_000
    writer = "node1"
    for cycle in result["cycles"]:
        returns = cycle["promise"] in ("writer", "all")
        assert cycle["writer"] == writer
        assert (cycle["reader"] == writer) is returns
        writer = cycle["reader"]


@pytest.mark.parametrize(
    ("engine", "program", "why"),
    [
        ("postgresql", "sys.exit('no room')", "ended with 1; its output: no room"),
        ("postgresql", "", r"node1 \(.*\) follows no other server"),
        ("postgresql", REWINDS, "no commit on node2 waits for a standby"),
        (
            "mysql",
            REPLACED["mysql"] + ADDS,
            "node1 has .* rows in ledger, and node2 has",
        ),
    ],
)
def test_no_cut_follows_until_the_cluster_is_whole(
    tmp_path: Path, engine: str, program: str, why: str
) -> None:
    folder = tmp_path / "pair"
    with cluster_of(tmp_path, engine=engine) as (cluster, _):
        file = write_inventory(tmp_path, cluster, program, wait_s=15)
        done = campaign(file, folder, 2)
        assert done.returncode == 4, done.stdout + done.stderr
        assert re.search(why, done.stderr.replace("\n", " ")), done.stderr
        assert len(CampaignFolder.open(folder).cycles()) == 1
        if "no room" not in program:
            return
        write_inventory(tmp_path, cluster, REWINDS + WAITS)
        done = dbcheck("campaign", "--resume", folder, "--json")
    assert list_nodes(done) == [("node1", "node2"), ("node2", "node1")]


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "engine", ["postgresql", "mysql", pytest.param("mariadb", marks=pytest.mark.wide)]
)
def test_a_control_loses_what_no_other_node_has(tmp_path: Path, engine: str) -> None:
    with cluster_of(tmp_path, engine=engine) as (cluster, _):
        file = write_inventory(tmp_path, cluster, REPLACED[engine])
        done = dbcheck(
            *("campaign", "pair", "--cuts", 1, "--control", "--seed", 3, "--json"),
            *("--inventory", file, "--folder", tmp_path / "pair"),
        )
    nodes = list_nodes(done)
    assert nodes == [("node1", "node2"), ("node2", "node1")]


@pytest.mark.wide
@pytest.mark.timeout(600)
@pytest.mark.parametrize("promise", ["writer", "all"])
def test_a_control_of_a_writer_that_comes_back_loses_what_was_not_flushed(
    tmp_path: Path, promise: str
) -> None:
    """The standby has none of that, so it follows on by itself."""
    given: dict[str, Any] = {"dbcheck_survives": promise}
    folder = tmp_path / "pair"
    with cluster_of(tmp_path) as (cluster, _):
        program = "sys.exit('not needed')"
        file = write_inventory(tmp_path, cluster, program, **given)
        done = dbcheck(
            *("campaign", "pair", "--cuts", 1, "--control", "--seed", 3, "--json"),
            *("--inventory", file, "--folder", folder),
        )
    assert done.returncode == 0, done.stdout + done.stderr
    cycles = CampaignFolder.open(folder).cycles()
    assert {(cycle.writer, cycle.reader) for cycle in cycles} == {("node1", "node1")}
    # By chance a control may lose nothing, or a cut come when nothing is at risk.
    *_, control = [cycle for cycle in cycles if cycle.control is not None]
    assert control.control is not None
    assert control.control.outcome is ControlOutcome.LOST
    assert control.lost
    assert cycles[-1].verdict is CycleVerdict.PASS and cycles[-1].control is None


def test_a_control_whose_commits_reach_the_standby_is_blind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if the sessions' setting had no effect, and no standby was disconnected."""
    with cluster_of(tmp_path) as (cluster, rig):
        engine: Any = rig.site.writer.engine
        _require_right_to_disconnect(cluster.labs["node1"], engine)
        monkeypatch.setattr(
            engine,
            "open_weak_session",
            lambda statements, _, **more: engine.open_session(statements, **more),
        )
        monkeypatch.setattr(engine, "open_detaching", lambda names, **_: None)
        judgement = run_control(rig, WORKLOAD, seed=1).judgement
    assert judgement.reasons == ("the control lost nothing",)
    assert judgement.control is ControlOutcome.BLIND


def _require_right_to_disconnect(lab: Lab, engine: PostgresqlEngine) -> None:
    """Require that the account of the lab may disconnect standbys, and not another."""
    password = secrets.token_hex(8)
    run_statements(
        lab,
        (f"create role plain login password '{password}'", "grant pg_monitor to plain"),
    )
    url = make_url(engine.target).set(username="plain").render_as_string()
    with engine._open() as link:
        assert not list(find_missing_for_control(link))
    with PostgresqlEngine(url, password)._open() as link:
        (missing,) = find_missing_for_control(link)
    assert missing.statement == "alter role plain superuser;"


def test_rows_of_a_control_that_was_never_cut_are_not_taken_for_lost(
    tmp_path: Path,
) -> None:
    """They are on the writer alone, which another node would take over from."""
    with cluster_of(tmp_path, engine="mysql") as (_, rig):
        started = run_preflight(rig, WORKLOAD, seed=1, control=True)
        _end_before_the_load(rig, started)
        _end_before_the_load(rig, run_preflight(rig, WORKLOAD, seed=2))
        session = rig.site.writer.engine.open_weak_session(
            started.plan.statements, Weakens.REPLICATION
        )
        with closing(session):
            commit(session, started.plan.operation(1, 1))
        with refused(ErrorId.NODE_DOES_NOT_REPLICATE, naming="node2 lacks 1 row"):
            run_preflight(rig, WORKLOAD, seed=3)


def _end_before_the_load(rig: Rig, started: Started) -> None:
    started.log.close()
    if started.held is not None:
        started.held.close()
    end_canaries(rig.site, started.canaries, remove=True)


@pytest.mark.wide
@pytest.mark.timeout(600)
def test_what_sql_cannot_rebuild_is_left_to_the_program(tmp_path: Path) -> None:
    """An old writer mostly has a commit of its own, which the cut caught on its way."""
    by: dict[str, Any] = {
        "dbcheck_rebuilt_by": "sql",
        "dbcheck_replication_user": USER,
    }
    with cluster_of(tmp_path, engine="mysql") as (cluster, _):
        file = write_inventory(tmp_path, cluster, REPLACED["mysql"], **by)
        inventory = json.loads(file.read_text())
        for host in inventory["all"]["children"]["pair"]["hosts"].values():
            secret = host["dbcheck_password_command"]
            host["dbcheck_replication_password_command"] = secret
        file.write_text(json.dumps(inventory))
        nodes = list_nodes(campaign(file, tmp_path / "pair", 3))
    assert nodes == [("node1", "node2"), ("node2", "node1"), ("node1", "node2")]


@pytest.mark.wide
@pytest.mark.timeout(600)
def test_a_campaign_whose_client_is_lost_in_the_control_goes_on(tmp_path: Path) -> None:
    """The run is judged, the cluster is rebuilt, and the cycle has its control."""
    folder, log = tmp_path / "pair", tmp_path / "log"
    with cluster_of(tmp_path) as (cluster, _):
        file = write_inventory(tmp_path, cluster, REPLACED["postgresql"])
        words = ("campaign", "pair", "--cuts", "1", "--control", "--seed", "3")
        given = ("--inventory", str(file), "--folder", str(folder))
        with log.open("wb") as said:
            client = subprocess.Popen(
                [sys.executable, "-m", "dbcheck", *words, *given],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=said,
            )
        with client:
            wait_until(lambda: "server gone" in log.read_text(), "the cut", 120)
            client.kill()
        done = dbcheck("campaign", "--resume", folder, "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    cycles = CampaignFolder.open(folder).cycles()
    first, *others = [cycle for cycle in cycles if not cycle.number]
    assert first.settled
    outcomes = [cycle.control.outcome for cycle in (first, *others) if cycle.control]
    assert outcomes[-1] is ControlOutcome.LOST
