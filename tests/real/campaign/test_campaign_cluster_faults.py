"""A campaign on a cluster that is wrong only from its second cycle on.

The first cycle of each passes: it is the honest neighbour.  What then goes wrong must
fail, show nothing, or be refused before anything is cut; and what was put right passes.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.campaign.folder import CampaignFolder, Cycle
from dbcheck.cycle.preflight.earlier_cycles import NOTHING_KNOWN
from dbcheck.cycle.rebuild import rebuild_cluster
from dbcheck.lab.clusters.cluster import ClusterLab
from dbcheck.lab.clusters.spec import REWIND
from dbcheck.model.cut import PowerState
from dbcheck.model.verdict import CycleVerdict, Verdict
from tests.kit.clusters import cluster_of, cycle, dbcheck
from tests.kit.lab_access import execute_on
from tests.kit.rebuilding import FOLLOWS, REPLACED, REWINDS, WAITS, write_inventory
from tests.kit.refusals import refused

pytestmark = [pytest.mark.wide, pytest.mark.timeout(1200)]

PASS, FAIL = CycleVerdict.PASS, CycleVerdict.FAIL
# Makes the old writer of MariaDB a replica of the new one.
# A fault beside the load of the second cycle alone, whose writer is node2.
FAULT = (
    FOLLOWS.replace("*sys.argv[2:]", '"node1", sys.argv[3]')
    + """
if sys.argv[2] == "begin" and writer == "node2":
"""
)
# Removes rows of the first cycle from the standby of MariaDB, in no binary log, once it
# has them all: its copy may replicate them first.
OF_FIRST_CYCLE = """
    import time
    import mysql.connector
    from dbcheck.base.errors import LabError
    ((first,),) = [row.values() for row in run_statements(
        leads, ("select epoch from dbcheck.ledger order by id limit 1",))]
    count = f"select count(*) as rows_there from dbcheck.ledger where epoch = {first}"
    def counted(server):
        try:
            return run_statements(server, (count,))
        except LabError:
            return None
    ends = time.monotonic() + 120
    while counted(lab) != counted(leads) and time.monotonic() < ends:
        time.sleep(0.1)
    url = make_url(lab.target_url)
    with mysql.connector.connect(
        host=url.host, port=url.port, user=url.username, password=lab.password,
        database=url.database, autocommit=True,
    ) as link, link.cursor() as cursor:
        cursor.execute("set session sql_log_bin = 0")
        cursor.execute(f"delete from ledger where epoch = {first} limit 7")
"""
# No commit waits any more, and the standby receives none.
LEFT_BEHIND = """
    run_statements(leads, (
        "alter system set synchronous_standby_names = ''", "select pg_reload_conf()"))
    run_statements(lab, (
        "alter system set primary_conninfo = ''", "select pg_reload_conf()"))
"""


def campaign(file: Path, folder: Path, cuts: int) -> subprocess.CompletedProcess[str]:
    return dbcheck(
        *("campaign", "pair", "--cuts", cuts, "--seed", 3, "--json", "--yes"),
        *("--inventory", file, "--folder", folder),
        within_s=600,
    )


def resume(folder: Path) -> subprocess.CompletedProcess[str]:
    return dbcheck("campaign", "--resume", folder, "--json", "--yes", within_s=600)


def cycles_of(folder: Path) -> list[Cycle]:
    return CampaignFolder.open(folder).cycles()


def result_of(done: subprocess.CompletedProcess[str]) -> Any:
    (result,) = json.loads(done.stdout)["targets"]
    return result


def require_refused(
    done: subprocess.CompletedProcess[str], folder: Path, id: ErrorId, *naming: str
) -> None:
    """Assert that the campaign ended with that error, after one cycle that passed."""
    said = " ".join(done.stderr.split())
    assert done.returncode not in (0, 1), done.stdout + done.stderr
    assert f"[{id.value}]" in said, said
    for text in naming:
        assert text in said
    assert [cycle.verdict for cycle in cycles_of(folder)] == [PASS]


def fault_of(cluster: ClusterLab, does: str) -> dict[str, Any]:
    labs = json.dumps({name: lab.name for name, lab in cluster.labs.items()})
    words = [sys.executable, "-c", FAULT + does, labs]
    return {"dbcheck_fault": [*words, "begin"], "dbcheck_fault_end": [*words, "end"]}


def test_a_rebuild_that_leaves_another_clusters_server_is_refused(
    tmp_path: Path,
) -> None:
    """A standby there, and a server that follows none; its own node is accepted."""
    with (
        cluster_of(tmp_path / "one", rebuild=REWIND) as (cluster, rig),
        cluster_of(tmp_path / "other") as (_, others),
    ):
        outcome = cycle(rig)
        assert outcome.verdict is Verdict.PASS, outcome.judgement.reasons
        site: Any = rig.site
        own, soon = site._nodes["node1"], replace(rig.limits, return_s=3)
        for name, why in (
            ("node2", "is of another cluster: system_identifier"),
            ("node1", "follows no other server"),
        ):
            site._nodes["node1"] = others.site.nodes[name]
            with refused(ErrorId.NODE_NOT_REBUILT, naming=why):
                rebuild_cluster(replace(rig, limits=soon), outcome.run)
        site._nodes["node1"] = own
        led = rebuild_cluster(rig, outcome.run)
        cluster.writer = led.site.writer_name
        known = NOTHING_KNOWN.with_outcome(outcome)
        outcome = cycle(led, known=known)
    assert outcome.verdict is Verdict.PASS, outcome.judgement.reasons
    assert (outcome.manifest.writer_name, outcome.after.reader_name) == (
        *("node2", "node1"),
    )


def test_a_rebuild_without_the_rows_of_an_earlier_cycle_is_refused(
    tmp_path: Path,
) -> None:
    """It follows, and waits, and has all that came later."""
    folder = tmp_path / "pair"
    with cluster_of(tmp_path, engine="mariadb") as (cluster, _):
        program = REPLACED["mariadb"] + f"if True:{OF_FIRST_CYCLE}"
        file = write_inventory(tmp_path, cluster, program, wait_s=20)
        done = campaign(file, folder, 2)
        require_refused(
            done, folder, ErrorId.NODE_NOT_REBUILT, "rows in ledger, and node2 has"
        )


def test_a_later_cut_that_loses_rows_of_an_earlier_cycle_fails(tmp_path: Path) -> None:
    """All rows of its own cycle are there."""
    folder = tmp_path / "pair"
    with cluster_of(tmp_path, engine="mariadb") as (cluster, _):
        fault = fault_of(cluster, OF_FIRST_CYCLE)
        file = write_inventory(tmp_path, cluster, REPLACED["mariadb"], **fault)
        done = campaign(file, folder, 3)
    assert done.returncode == 1, done.stdout + done.stderr
    cycles = cycles_of(folder)
    assert [cycle.verdict for cycle in cycles] == [PASS, FAIL]
    assert [(cycle.lost, cycle.earlier_lost) for cycle in cycles] == [(0, 0), (0, 7)]
    result = result_of(done)
    assert (result["verdict"], result["finished"]) == ("FAIL", True)
    assert result["statistics"]["losses"] == 1


def test_a_standby_that_is_left_behind_in_the_second_cycle_loses(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "pair"
    with cluster_of(tmp_path) as (cluster, _):
        fault = fault_of(cluster, LEFT_BEHIND)
        file = write_inventory(tmp_path, cluster, REWINDS + WAITS, **fault)
        done = campaign(file, folder, 3)
    assert done.returncode == 1, done.stdout + done.stderr
    first, second = cycles_of(folder)
    assert (first.verdict, second.verdict) == (PASS, FAIL)
    assert second.lost
    assert result_of(done)["finished"]


def test_a_switch_that_cuts_the_earlier_writer_proves_nothing(tmp_path: Path) -> None:
    """That of node2 is wired to node1; the first cycle does not use it."""
    with cluster_of(tmp_path, rebuild=REWIND) as (cluster, rig):
        first = cycle(rig)
        assert first.verdict is Verdict.PASS, first.judgement.reasons
        led = rebuild_cluster(rig, first.run)
        cluster.writer = led.site.writer_name
        nodes = led.site.nodes
        wired = replace(nodes["node2"], power=nodes["node1"].power)
        led = replace(
            led,
            site=led.site.with_writer(wired),
            limits=replace(rig.limits, return_s=20),
        )
        known = NOTHING_KNOWN.with_outcome(first)
        second = cycle(led, known=known)
        assert cluster.labs["node2"].switch().state() is PowerState.ON
    assert second.verdict is Verdict.INCONCLUSIVE, second.judgement.reasons
    assert second.found is None
    assert second.after.reader_name == "node2"


def test_what_is_changed_between_two_sessions_is_refused(tmp_path: Path) -> None:
    """The nodes, the runs and the rows; once each is as it was, it goes on."""
    folder = tmp_path / "pair"
    with cluster_of(tmp_path) as (cluster, _):
        file = write_inventory(tmp_path, cluster, "sys.exit('no room')")
        done = campaign(file, folder, 2)
        require_refused(done, folder, ErrorId.REBUILD_COMMAND_FAILED, "no room")
        file = write_inventory(tmp_path, cluster, REWINDS + WAITS)
        honest = file.read_text()

        inventory = json.loads(honest)
        host = inventory["all"]["children"]["pair"]["hosts"]["node2"]
        host["dbcheck_target"] += "?connect_timeout=9"
        file.write_text(json.dumps(inventory))
        done = resume(folder)
        require_refused(done, folder, ErrorId.CAMPAIGN_OF_OTHER_TARGET, "node2")
        file.write_text(honest)

        (run,) = (folder / "runs").iterdir()
        stranger = run.with_name("20260101-000000-abcdef")
        shutil.copytree(run, stranger)
        done = resume(folder)
        require_refused(done, folder, ErrorId.RUN_NOT_OF_CAMPAIGN, stranger.name)
        shutil.rmtree(stranger)

        writer = cluster.labs["node2"]
        kept = "create table kept as select * from dbcheck.ledger order by id limit 3"
        gone = "delete from dbcheck.ledger where id in (select id from kept)"
        back = "insert into dbcheck.ledger select * from kept"
        never = "set synchronous_commit = local"  # no standby follows yet
        execute_on(writer, never, kept, gone)
        done = resume(folder)
        require_refused(done, folder, ErrorId.EARLIER_ROWS_LOST, "(at least 3)")
        execute_on(writer, never, back)
        done = resume(folder)
    assert done.returncode == 0, done.stdout + done.stderr
    assert [cycle.verdict for cycle in cycles_of(folder)] == [PASS, PASS]
    nodes = [(cycle.writer, cycle.reader) for cycle in cycles_of(folder)]
    assert nodes == [("node1", "node2"), ("node2", "node1")]
