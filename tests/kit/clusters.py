"""Clusters of a lab, and cycles on them in which something is wrong."""

from __future__ import annotations

import contextlib
import io
import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from dbcheck.cli.lab import describe_as_host
from dbcheck.cycle.cycle import finish_cycle
from dbcheck.cycle.outcome import Outcome
from dbcheck.cycle.preflight.before_load import run_preflight
from dbcheck.cycle.preflight.earlier_cycles import NOTHING_KNOWN, Known
from dbcheck.cycle.rig import Limits, Rig
from dbcheck.judge.item import ItemId, Status
from dbcheck.lab import lab as labs
from dbcheck.lab.clusters.cluster import ClusterLab
from dbcheck.lab.clusters.spec import BY_DBCHECK, PATRONI, PATRONI_4, ClusterSpec
from dbcheck.lab.lab import list_missing
from dbcheck.lab.spec import DriveSpec, LabSpec
from dbcheck.model.cluster import Promise
from dbcheck.model.replication import PromotedBy
from dbcheck.report.progress import PlainProgress
from dbcheck.rows.workload import Workload
from dbcheck.runner.lab_clusters import await_standbys, make_cluster_rig
from dbcheck.site.cluster import Cluster
from dbcheck.site.cut_promoted import Promote
from dbcheck.site.group import Group
from tests.kit.rigs import quick
from tests.kit.waiting import wait_until

WORKLOAD = replace(quick(), cut_after_s=(0.8, 1.2))


@contextlib.contextmanager
def cluster_of(
    folder: Path,
    nodes: int = 2,
    promise: Promise = Promise.WRITER_GONE,
    drive: DriveSpec | None = None,
    engine: str = "postgresql",
    topology: str = "",
    promoted_by: str = BY_DBCHECK,
    rejoin: bool = False,
    rebuild: str = "",
    network: bool = False,
    **values: str,
) -> Iterator[tuple[ClusterLab, Rig]]:
    """Give a cluster of two servers or more, and its rig.

    drive: None if the server process is killed.
    topology, promoted_by, rejoin, rebuild, network: see ClusterSpec.
    values: settings.
    """
    folder.mkdir(exist_ok=True)
    cut = "drive" if drive else "process"
    lab = LabSpec(engine, cut=cut, drive=drive or DriveSpec(), settings=values)
    made = replace(
        lab,
        galera=topology == "galera",
        patroni=promoted_by in (PATRONI, PATRONI_4),
        patroni_4=promoted_by == PATRONI_4,
        network=network,
    )
    if lacking := list_missing(made):
        pytest.skip("; ".join(lacking))
    spec = ClusterSpec(
        *(nodes, promise.value, topology, promoted_by),
        rejoin=rejoin,
        rebuild=rebuild,
        network=network,
    )
    with ClusterLab(lab, spec, folder / "lab") as cluster:
        progress = PlainProgress(Console(file=io.StringIO()))
        limits = Limits(return_s=60)
        rig = make_cluster_rig(cluster, progress, folder / "runs", limits)
        with contextlib.closing(rig.witness):
            await_standbys(rig, cluster)
            yield cluster, rig


GROUPS = {"galera": "mariadb", "group-replication": "mysql"}  # and their servers


@contextlib.contextmanager
def group_of(
    topology: str,
    folder: Path,
    promise: Promise = Promise.WRITER_GONE,
    drive: DriveSpec | None = None,
    nodes: int = 3,
    **values: Any,
) -> Iterator[tuple[ClusterLab, Rig]]:
    """Give a cluster of one of GROUPS, as cluster_of() does."""
    engine = GROUPS[topology]
    with cluster_of(
        folder, nodes, promise, drive, engine, topology=topology, **values
    ) as made:
        yield made


def inventory_of(
    folder: Path, group: str, cluster: ClusterLab, **given: object
) -> Path:
    """Return an inventory whose *group* is that cluster; given: its variables."""
    hosts = {name: describe_as_host(lab) for name, lab in cluster.labs.items()}
    children = {group: {"hosts": hosts, "vars": {"dbcheck_writer": "node1", **given}}}
    file = folder / "inventory.yml"
    file.write_text(json.dumps({"all": {"children": children}}))
    file.chmod(0o600)
    return file


def dbcheck(*words: object, within_s: float = 240) -> subprocess.CompletedProcess[str]:
    """Run dbcheck from the command line; within_s: what is too long."""
    return subprocess.run(
        [sys.executable, "-m", "dbcheck", *map(str, words)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=within_s,
    )


def promoting(rig: Rig, promote: Promote) -> Rig:
    """Return *rig*, on which a command promotes as *promote* does."""
    site = rig.site
    assert site.promise is not None
    changed = Cluster(
        site.kind,
        site.nodes,
        site.writer_name,
        site.promise,
        by=PromotedBy.COMMAND,
        promote=promote,
        brings_back=True,
    )
    return replace(rig, site=changed)


def rebuilt(rig: Rig, cluster: ClusterLab, writer: str) -> Rig:
    """Rebuild the other nodes for *writer*; return the rig of its next cycle."""
    for name in cluster.labs:
        if name != writer:
            cluster.rebuild(name, writer)
    promise, nodes = Promise(cluster.spec.promise), rig.site.nodes
    if cluster.kind.is_group:
        site: Cluster = Group(cluster.kind, nodes, writer, promise, bootstrap=True)
    else:
        site = Cluster(
            *(cluster.kind, nodes, writer, promise),
            by=PromotedBy.AUTO
            if cluster.spec.is_managed_by_patroni
            else PromotedBy.SQL,
            brings_back=True,
            isolate=cluster.take_links_down,
        )
    changed = replace(rig, site=site)
    await_standbys(changed, cluster)
    return changed


def without(rig: Rig, outsider: str) -> Rig:
    """Return *rig* as of an inventory that does not name that node."""
    site = rig.site
    assert site.promise is not None
    nodes = {name: node for name, node in site.nodes.items() if name != outsider}
    changed = Cluster(
        site.kind, nodes, site.writer_name, site.promise, brings_back=True
    )
    return replace(rig, site=changed)


def cycle(
    rig: Rig,
    before: Callable[[], object] = lambda: None,
    workload: Workload = WORKLOAD,
    known: Known = NOTHING_KNOWN,
) -> Outcome:
    """Run a cycle; *before* its load something is done to the cluster."""
    started = run_preflight(rig, workload, seed=1, known=known)
    before()
    return finish_cycle(rig, started)


def status(outcome: Outcome, item: ItemId) -> Status:
    return next(one.status for one in outcome.judgement.items if one.id is item)


@contextlib.contextmanager
def client_of(
    source: str, folder: Path
) -> Iterator[tuple[subprocess.Popen[bytes], list[str]]]:
    """Run *source*, which is given *folder*, in a process of its own.

    Give the process, and the words of the first line that it prints.  It is waited for.
    """
    client = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", source, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    with client:
        assert client.stdout is not None
        yield client, client.stdout.readline().decode().split()


def await_end_of(names: Sequence[str]) -> None:
    """Wait until these labs have ended, and remove what is left of them."""
    wait_until(lambda: not set(names) & set(labs.list_attached_labs()), "the labs' end")
    for name in set(names) & set(labs.list_persistent_labs()):
        labs.down(name)
