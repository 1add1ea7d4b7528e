"""What a cluster of tools.kubernetes has on this machine, and that it goes with it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.kit.kubernetes.clusters import MARKS, cluster_in, server_in
from tests.kit.waiting import wait_until
from tools.kubernetes.cluster import start_again, up
from tools.kubernetes.machine import Traces, cut, cut_node
from tools.kubernetes.node import is_ready, start_node_again
from tools.kubernetes.run import ClusterError
from tools.kubernetes.state import Cluster, Node, Programs

pytestmark = MARKS


def find_running(folder: Path, cgroups: Sequence[str]) -> dict[str, list[str]]:
    """Return what runs of the programs that have their files in *folder*."""
    mounts = Path("/proc/self/mountinfo").read_text().splitlines()
    top = Path("/sys/fs/cgroup")
    return {
        "processes": [
            str(words[0])
            for words in map(read_words, Path("/proc").glob("[0-9]*"))
            if any(os.fsencode(f"{folder}/") in word for word in words)
        ],
        "mounts": [line for line in mounts if f" {folder}/" in line],
        "control groups": [
            str(found)
            for name in cgroups
            for found in [*top.glob(name), *top.glob(f"*/{name}")]
        ],
    }


def read_words(process: Path) -> Sequence[bytes]:
    try:
        return (process / "cmdline").read_bytes().split(b"\0")
    except OSError:
        return []


def find_links(folder: Path) -> list[Path]:
    links = Path("/var/log/containers").glob("*")
    return [link for link in links if link.readlink().is_relative_to(folder)]


def has_pod(cluster: Cluster, node: Node) -> bool:
    """Return True if a container of the node has a process."""
    return bool(Traces.of(cluster).list_members(node))


def all_alive(*nodes: Cluster | Node) -> bool:
    return all(one.alive() for each in nodes for one in each.read_processes().values())


def test_a_node_is_cut_and_starts_alone_and_all_goes_at_the_end(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("nodes") / "cluster"
    with cluster_in(folder, nodes=2) as cluster:
        first, second = cluster.nodes
        groups = [Traces.of(cluster).name_cgroup(node) for node in cluster.nodes]
        with server_in(cluster, "volume", tmp_path / "data"):
            assert has_pod(cluster, first) and not has_pod(cluster, second)
            assert all(find_running(first.folder, groups[:1]).values())
            assert find_links(folder)

            cut_node(cluster, first)
            assert not has_pod(cluster, first)
            assert not any(find_running(first.folder, groups[:1]).values())
            assert all_alive(cluster, second) and not all_alive(first)
            wait_until(lambda: not is_ready(cluster, first), "it is missed", 120)
            assert is_ready(cluster, second)

            start_node_again(cluster, first)
            wait_until(lambda: has_pod(cluster, first), "it has its pod again")
            wait_until(lambda: is_ready(cluster, first), "it is ready again")

            cut(cluster)
            assert not any(find_running(folder, groups).values())
            start_again(cluster)
            wait_until(lambda: has_pod(cluster, first), "it has its pod again")
            assert all_alive(cluster, first, second)
    assert not folder.exists()
    assert not any(find_running(folder, groups).values())
    assert not find_links(folder)


def test_an_unknown_node_is_named_with_those_that_there_are(tmp_path: Path) -> None:
    for name in ("dbcheck", "dbcheck-b"):
        (tmp_path / name).mkdir()
    with pytest.raises(ClusterError, match="no node 'c' among .*: dbcheck, dbcheck-b"):
        Cluster(tmp_path).find_node("c")


def test_a_folder_whose_path_is_too_long_for_sockets_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / ("long" * 20)
    with pytest.raises(ClusterError, match=r"path \d+ bytes too long: .*kubelet.sock"):
        up(folder)
    assert not folder.exists()


def test_a_program_that_ended_is_named_with_its_last_lines(tmp_path: Path) -> None:
    programs = Programs(tmp_path)
    programs.logs.mkdir()
    programs.start("speaks", "sh", "-c", "echo no disk; exec sleep 1000")
    wait_until(lambda: bool((programs.logs / "speaks.log").read_text()), "it speaks")
    programs.require_running("speaks")
    programs.kill()
    with pytest.raises(ClusterError, match="speaks ended:\nno disk"):
        programs.require_running("speaks")
