"""Two servers in pods with addresses of their own, on two nodes of a real cluster."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from string import Template

from dbcheck.cycle.recovery.pods_again import close_hosts
from dbcheck.cycle.rig import Limits, Rig
from dbcheck.inventory.load import load_inventory
from dbcheck.ports.site import Site
from dbcheck.runner.assemble import make_rig
from dbcheck.runner.placement import Placement, place_entry
from dbcheck.witness.url import open_witness
from dbcheck.witness.window import WindowLimits
from tests.kit.rigs import Said
from tests.kit.waiting import wait_until
from tests.planted.site import HandSwitch
from tools.kubernetes import images
from tools.kubernetes.machine import Traces, cut_node
from tools.kubernetes.node import start_node_again
from tools.kubernetes.run import run
from tools.kubernetes.server import MANIFESTS, await_server
from tools.kubernetes.state import Cluster, Node

FIRST, SECOND = "first-0", "second-0"  # their pods


def start_pair(cluster: Cluster, folder: Path, awaited: str) -> None:
    """Start the servers on a cluster of two nodes; the second follows the first.

    awaited: synchronous_standby_names.  Raise ClusterError if they do not come up.
    """
    followed = ""
    for pod, node in zip((FIRST, SECOND), cluster.nodes, strict=True):
        (folder / node.name).mkdir(parents=True)
        name = pod.removesuffix("-0")
        text = Template((MANIFESTS / "pair/streaming.yaml").read_text()).substitute(
            name=name,
            node=node.name,
            folder=folder / node.name,
            followed=followed,
            awaited=awaited,
            image=images.EMPTY,
        )
        cluster.kubectl("apply", "-f", "-", text=text)
        await_server(cluster, name)
        address = ("get", "pod", pod, "-o", "jsonpath={.status.podIP}")
        followed = cluster.kubectl(*address)


def write_inventory(cluster: Cluster, folder: Path, **more: object) -> Path:
    """Write an inventory of the pair, whose nodes are this machine.

    The target has the port of a load balancer, at which no pod listens.
    """
    pair = {
        "dbcheck_kubernetes": {
            "kubeconfig": str(cluster.kubeconfig),
            "selector": "app=pair",
        },
        "dbcheck_target": "postgresql+psycopg2://dbcheck@pair.test:30432/postgres",
        "dbcheck_topology": "streaming",
        "dbcheck_survives": "writer-gone",
        "dbcheck_witness": f"file:{folder}",
        **more,
    }
    nodes = {node.name: {"ansible_connection": "local"} for node in cluster.nodes}
    children = {"nodes": {"hosts": nodes}}
    file = folder / "inventory.yml"
    file.write_text(
        json.dumps({"all": {"hosts": {"pair": pair}, "children": children}})
    )
    file.chmod(0o600)
    return file


def write_rebuild(cluster: Cluster, folder: Path) -> list[str]:
    """Write a program that makes one pod a copy of another; return how it is called."""
    options = f"--kubeconfig {cluster.kubeconfig} --cache-dir {cluster.folder}/cache"
    file = folder / "rebuild"
    file.write_text(
        "#!/bin/sh -eu\n"
        f'kubectl() {{ {cluster.program} kubectl {options} "$@"; }}\n'
        "address=$(kubectl get pod \"$2\" -o 'jsonpath={.status.podIP}')\n"
        'kubectl exec "$1" -- sh -c "echo $address >/data/followed; kill -QUIT 1"\n'
    )
    file.chmod(0o700)
    return [str(file)]


@contextlib.contextmanager
def rig_of_pair(cluster: Cluster, file: Path) -> Iterator[Rig]:
    """Give the rig that the inventory describes; a cut ends one node of *cluster*.

    Of the whole machine it would cut, dbcheck itself refuses the cut.
    """
    inventory = load_inventory(file)
    entry = place_entry(inventory, inventory.entry("pair"), clusters=True)
    with contextlib.closing(open_witness(entry.witness, volatile=True)) as witness:
        rig = make_rig(entry, witness, Said(), file.parent / "runs", WindowLimits())
        placed = Placement(entry, Said())
        switches, sites = list[_NodeSwitch](), list[Site]()
        find_nodes = placed.find_nodes
        assert find_nodes is not None

        def switched(site: Site) -> Site:
            machines = {
                one.name: one.machine for one in (placed.entry, *placed.entry.standbys)
            }
            leads = site.writer_name
            for name, node in site.nodes.items():
                switches.append(_NodeSwitch(cluster, machines[name]))
                node = replace(node, power=switches[-1])
                site = site.led_by(name).with_writer(node)
            sites.append(site.led_by(leads))
            return sites[-1]

        limits = Limits(silence_s=3.0, cut_s=15.0, return_s=90)
        site = switched(rig.site)
        try:
            yield replace(
                rig,
                site=site,
                limits=limits,
                lab={"cut": "process"},
                find_nodes=lambda leads: switched(find_nodes(leads)),
            )
        finally:
            close_hosts(sites[-1])  # dbcheck has closed those before
            for switch in switches:
                switch.close()


class _NodeSwitch(HandSwitch):
    """Ends a node; the cut is done once its servers are gone, and not all it had."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        node = cluster.find_node(name)
        self._ending = threading.Thread(target=cut_node, args=(cluster, node))
        super().__init__(
            partial(self._end, Traces.of(cluster), node),
            partial(start_node_again, cluster, node),
        )

    def _end(self, traces: Traces, node: Node) -> None:
        self._ending.start()
        wait_until(lambda: not traces.list_members(node), "its processes end")

    def close(self) -> None:
        """Return once the node has ended, if it was cut."""
        if self._ending.ident is not None:
            self._ending.join()


def find_process(node: Node, container_id: str) -> int:
    """Return the id of the first process of a container."""
    lines = [line.split() for line in node.ctr("tasks", "ls").splitlines()]
    (found,) = [int(words[1]) for words in lines if words[0] == container_id]
    return found


def drop_stream(process: int, sender: str) -> None:
    """Have a server's own network drop what another server sends to it."""
    rule = ["INPUT", "-s", sender, "-p", "tcp", "--sport", "5432", "-j", "DROP"]
    run(["nsenter", "-t", str(process), "-n", "iptables", "-I", *rule])
