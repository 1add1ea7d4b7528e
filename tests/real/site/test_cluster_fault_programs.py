"""A fault beside the load that programs of the user begin and end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from dbcheck.lab.clusters.cluster import ClusterLab
from dbcheck.runs.folder import RunFolder
from tests.kit.clusters import cluster_of, dbcheck, inventory_of
from tests.kit.waiting import wait_until

pytestmark = pytest.mark.root

CLUSTER: dict[str, Any] = {
    "dbcheck_topology": "streaming",
    "dbcheck_survives": "writer-gone",
    "dbcheck_sessions": 4,
}
# Cuts the writer off by a rule in its own network, or ends that; says what it did.
PARTS = """
import subprocess, sys, time
from pathlib import Path

network, peer, notes, takes_s, action, name = sys.argv[1:]
enter = ["nsenter", f"--net={network}"]
words = ["to", peer, "blackhole"]
if action == "begin":
    subprocess.run([*enter, "ip", "rule", "add", *words], check=True)
else:
    while not subprocess.run(
        [*enter, "ip", "rule", "del", *words], stderr=subprocess.DEVNULL
    ).returncode:
        pass
with Path(notes).open("a") as file:
    file.write(f"{action} {name}\\n")
if action == "begin":
    time.sleep(float(takes_s))
"""


@contextmanager
def parted(
    folder: Path, takes_s: float = 0.0, **given: Any
) -> Iterator[tuple[ClusterLab, Path, Path]]:
    """Give a cluster of PostgreSQL, the programs' notes, and its inventory.

    takes_s: how long the first program goes on once the fault is there.
    """
    with cluster_of(folder, network=True) as (cluster, _):
        assert cluster.network is not None
        hosts, notes = cluster.network.hosts, folder / "notes"
        network = f"/proc/{os.getpid()}/fd/{hosts['node1'].namespace}"
        words = [sys.executable, "-c", PARTS, network, hosts["node2"].address]
        words += [str(notes), str(takes_s)]
        programs = {
            "dbcheck_fault": [*words, "begin"],
            "dbcheck_fault_end": [*words, "end"],
        }
        file = inventory_of(folder, "pair", cluster, **CLUSTER | programs | given)
        yield cluster, notes, file


def count_rules(cluster: ClusterLab) -> int:
    """Return how many rules part the writer from the other node."""
    assert cluster.network is not None
    namespace = cluster.network.hosts["node1"].namespace
    done = subprocess.run(
        [*("nsenter", f"--net=/proc/{os.getpid()}/fd/{namespace}"), "ip", "rule"],
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.count("blackhole")


def words_of(file: Path, folder: Path, *more: object) -> tuple[object, ...]:
    runs = ("--runs", folder / "runs")
    return ("run", "pair", "--inventory", file, *runs, "--seed", 3, *more)


def test_programs_part_a_cluster_and_join_it(tmp_path: Path) -> None:
    with parted(tmp_path) as (cluster, notes, file):
        done = dbcheck(*words_of(file, tmp_path, "--json"))
        assert count_rules(cluster) == 0
    assert done.returncode in (0, 3), done.stdout + done.stderr
    assert notes.read_text() == "begin node1\nend node1\n"
    result = json.loads(done.stdout)
    (found,) = (
        item for item in result["evidence"] if item["item"] == "fault beside the load"
    )
    assert found["status"] == "present", found
    assert "the fault of node1 was there from" in found["reason"]


@pytest.mark.wide
def test_a_fault_that_does_not_begin_is_ended_and_nothing_is_cut(
    tmp_path: Path,
) -> None:
    fails = [sys.executable, "-c", "import sys; sys.exit('no rights')"]
    with parted(tmp_path, dbcheck_fault=fails) as (cluster, notes, file):
        done = dbcheck(*words_of(file, tmp_path))
        assert cluster.labs["node1"].switch().state().value == "on"
    assert done.returncode not in (0, 1), done.stdout + done.stderr
    assert "no rights" in done.stderr
    assert "nothing was cut" in done.stderr.lower()
    assert notes.read_text() == "end node1\n"


@pytest.mark.wide
def test_a_fault_that_does_not_end_is_shown_and_no_run_passes(tmp_path: Path) -> None:
    fails = [sys.executable, "-c", "import sys; sys.exit('no route')"]
    with parted(tmp_path, dbcheck_fault_end=fails) as (cluster, _, file):
        done = dbcheck(*words_of(file, tmp_path))
        assert count_rules(cluster) == 1
    assert done.returncode == 3, done.stdout + done.stderr
    assert "node1: STILL THERE" in done.stderr
    assert "no route" in done.stderr
    assert "the fault beside the load could not be ended" in done.stderr


@pytest.mark.wide_with("2")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_client_that_ends_in_it_leaves_no_fault(
    tmp_path: Path, number: signal.Signals
) -> None:
    """Ctrl-C ends it; after SIGKILL reconcile does, whatever the run shows."""
    with parted(tmp_path, takes_s=10) as (cluster, notes, file):
        words = words_of(file, tmp_path)
        client = subprocess.Popen(
            [sys.executable, "-m", "dbcheck", *map(str, words)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        with client:
            wait_until(lambda: notes.exists(), "the fault", 120)
            assert count_rules(cluster) == 1
            client.send_signal(number)
            client.wait()
        (run,) = (tmp_path / "runs").glob("2*")
        if number is signal.SIGKILL:
            record = RunFolder.open(run).fault()
            assert record is not None and not record.is_over
            assert count_rules(cluster) == 1
            words = ("reconcile", run, "--inventory", file, "--name", "pair")
            done = dbcheck(*words, "--wait", 1)
            assert "it may still be there; ending it" in done.stderr
        assert count_rules(cluster) == 0
        assert notes.read_text() == "begin node1\nend node1\n"
        record = RunFolder.open(run).fault()
        assert record is not None and record.is_over


def test_programs_that_are_not_there_are_refused_before_anything(
    tmp_path: Path,
) -> None:
    with parted(tmp_path, dbcheck_fault_end=["no-such-program"]) as (_, notes, file):
        done = dbcheck(*words_of(file, tmp_path))
    assert done.returncode == 2, done.stdout + done.stderr
    assert "dbcheck_fault_end: there is no program 'no-such-program'" in done.stderr
    assert not notes.exists() and not (tmp_path / "runs").exists()
