"""A cluster of labs: one server writes, and others follow it, or are one group with it.

Servers that follow the writer do so over links that can fail.  The servers recognise
each other by certificates of the cluster's own authority (lab/certificates.py), since
everybody on this machine may connect to them, and may listen in place of a server that
is off.
"""

from __future__ import annotations

import contextlib
import secrets
import uuid
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from sqlalchemy.engine import make_url

from dbcheck.lab.certificates import Authority
from dbcheck.lab.clusters.etcd import run_etcd
from dbcheck.lab.clusters.replication import (
    Ports,
    follow,
    join_group,
    make_galera_settings,
    make_group_settings,
    make_node_settings,
    rejoin,
)
from dbcheck.lab.clusters.spec import ClusterSpec, choose_cluster_kind, require_possible
from dbcheck.lab.held_port import HeldPort
from dbcheck.lab.lab import Lab, require_buildable
from dbcheck.lab.link import Link
from dbcheck.lab.servers.base import Source, require_undecided
from dbcheck.lab.servers.mysql import require_no_group
from dbcheck.lab.servers.patroni import PatroniMember, is_synchronous
from dbcheck.lab.spec import LabSpec
from dbcheck.model.cluster import Promise, SiteKind

# Settings of TLS, which the cluster decides: the nodes recognise each other by it.
_TLS_SETTINGS = frozenset(
    {
        "ssl",
        "ssl_ca",
        "ssl_cert",
        "ssl_key",
        "ssl_ca_file",
        "ssl_cert_file",
        "ssl_key_file",
    }
)


class ClusterLab:
    """The labs of one cluster, and the links between the writer and the others.

    lab:  configuration of each node's lab.
    spec: configuration of the cluster.
    labs: name of each node -> its lab, the writer's first.
    kind: the kind of cluster that they form.
    """

    def __init__(
        self, lab: LabSpec, spec: ClusterSpec, folder: Path, number: int = 0
    ) -> None:
        """Build the cluster; return once every standby follows, or has joined.

        lab:    configuration of each node's lab, without the settings that make it a
                node of the cluster.
        folder: the folder of each lab has this name and "-" and the node's name.
        number: the number of the cycle; in each cycle the drives have other seeds.
        Raise LabError, with nothing left.
        """
        require_possible(lab, spec)
        require_undecided(lab.settings, _TLS_SETTINGS, "a cluster")
        self.lab, self.spec, self.kind = lab, spec, choose_cluster_kind(lab, spec)
        if self.kind is not SiteKind.GROUP_REPLICATION:
            require_no_group(lab.settings)
        self.labs: dict[str, Lab] = {}
        self._links: dict[str, Link] = {}
        self._authority = Authority()
        self._ports: Sequence[object] = ()  # which the nodes keep while they are off
        self._held = contextlib.ExitStack()
        seed = lab.drive.seed + number * spec.nodes
        drives = [replace(lab.drive, seed=seed + node) for node in range(spec.nodes)]
        nodes = [replace(lab, drive=drive) for drive in drives]
        try:
            match self.kind:
                case SiteKind.GALERA:
                    self._form_galera(nodes, folder)
                case SiteKind.GROUP_REPLICATION:
                    self._form_group(nodes, folder)
                case _ if spec.is_managed_by_patroni:
                    self._begin_patroni(nodes, folder)
                case _:
                    self._begin_replication(nodes, folder)
        except BaseException:
            self._held.close()
            raise

    @property
    def patroni_sets_synchronous(self) -> bool:
        """True if Patroni will set the writer to wait for a standby."""
        return self.spec.is_managed_by_patroni and is_synchronous(self.lab.settings)

    def take_links_down(self, *names: str) -> None:
        """Let nothing pass between the writer and the standbys *names*.

        Without *names*, take all links down.  Patroni's standbys share one link, which
        has the writer's name.
        """
        for name in names or self._links:
            self._links[name].take_down()

    def rejoin(self, name: str, writer: str) -> None:
        """Have the node *name* follow the new *writer*, as an operator does.

        The caller must wait until it follows.  Raise LabError.
        """
        new_writer = self.labs[writer]
        rejoin(
            self.labs[name],
            new_writer,
            Source(_port(new_writer), new_writer.password, name),
        )

    def close(self) -> None:
        """End all labs and links."""
        self._held.close()

    def __enter__(self) -> ClusterLab:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _begin_replication(self, nodes: Sequence[LabSpec], folder: Path) -> None:
        writer, *standbys = self.spec.names
        cuts_all = Promise(self.spec.promise).cuts_all
        for number, node in enumerate(nodes, 1):
            settings = make_node_settings(
                *(node.engine, number, standbys, node.settings), cuts_all=cuts_all
            )
            name = self.spec.names[number - 1]
            source = None if name == writer else self._source(writer, name)
            lab = self._start(name, replace(node, settings=settings), folder, source)
            if source is not None:
                follow(lab, source)

    def _begin_patroni(self, nodes: Sequence[LabSpec], folder: Path) -> None:
        """Start one node after the other: the first finds no cluster, and leads."""
        nodes = [replace(node, patroni=True) for node in nodes]
        require_buildable(nodes[0])
        etcd_port = self._held.enter_context(
            run_etcd(self._authority.issue_certificate("etcd"))
        )
        password = secrets.token_urlsafe()
        link = self._begin_link(self.spec.names[0])
        for name, node in zip(self.spec.names, nodes, strict=True):
            is_first = not self.labs
            member = PatroniMember(
                *(name, etcd_port, link.port if is_first else 0, password),
                after_cut=not is_first,
            )
            lab = self._start(name, node, folder, member)
            if is_first:
                link.lead_to(_port(lab))

    def _form_galera(self, nodes: Sequence[LabSpec], folder: Path) -> None:
        """Start one node after the other: each copies the data of a running node."""
        names = self.spec.names
        self._ports = ports = [Ports.held() for _ in nodes]
        for number, node in enumerate(nodes, 1):
            settings = make_galera_settings(names, number, ports, node.settings)
            source = None
            if number > 1:
                first = self.labs[names[0]]
                source = Source(_port(first), first.password, names[number - 1])
            spec = replace(node, galera=True, settings=settings)
            self._start(names[number - 1], spec, folder, source)

    def _form_group(self, nodes: Sequence[LabSpec], folder: Path) -> None:
        """Start one node after the other, and have each join the running nodes."""
        ports, group = [HeldPort() for _ in nodes], str(uuid.uuid4())
        self._ports = ports
        for number, (name, node) in enumerate(
            zip(self.spec.names, nodes, strict=True), 1
        ):
            settings = make_group_settings(group, number, ports, node.settings)
            first, source = self.labs.get(self.spec.names[0]), None
            if first is not None:
                source = Source(_port(first), first.password, name)
            lab = self._start(name, replace(node, settings=settings), folder, source)
            join_group(lab, first=first is None)

    def _start(
        self,
        name: str,
        spec: LabSpec,
        folder: Path,
        source: Source | PatroniMember | None,
    ) -> Lab:
        lab_folder = folder.with_name(f"{folder.name}-{name}")
        identity = self._authority.issue_certificate(name)
        lab = Lab.start(spec, lab_folder, source=source, identity=identity)
        self.labs[name] = self._held.enter_context(lab)
        return lab

    def _source(self, writer: str, name: str) -> Source:
        """Return the writer as a source for the node *name*, over a new link."""
        lab, link = self.labs[writer], self._begin_link(name)
        link.lead_to(_port(lab))
        return Source(link.port, lab.password, name)

    def _begin_link(self, name: str) -> Link:
        """Begin a link that take_links_down() knows as *name*."""
        link = Link(self.spec.link_delay_ms)
        self._held.callback(link.close)
        self._links[name] = link
        return link


def _port(lab: Lab) -> int:
    port = make_url(lab.target_url).port
    assert port is not None  # a lab's URL has one
    return port
