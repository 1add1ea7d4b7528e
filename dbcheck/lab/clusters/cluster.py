"""A cluster of labs: one server writes, and others follow it, or are one group with it.

Servers that follow the writer do so over links that can fail, or all are in a network
that can.  The servers recognise each other by certificates of the cluster's own
authority (lab/certificates.py), since everybody on this machine may connect to them,
and may listen in place of a server that is off.
"""

from __future__ import annotations

import contextlib
import secrets
import uuid
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path

from sqlalchemy.engine import make_url

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import LabError
from dbcheck.lab.certificates import Authority, Identity
from dbcheck.lab.clusters.etcd import run_etcd
from dbcheck.lab.clusters.network import BOTH_WAYS, Network, Way
from dbcheck.lab.clusters.rebuilding import (
    SYNCHRONOUS,
    lead,
    rebuild,
    rebuild_below_patroni,
    rebuild_member,
    swap_names,
)
from dbcheck.lab.clusters.replication import (
    Ports,
    follow,
    join_group,
    make_galera_settings,
    make_group_settings,
    make_node_settings,
    make_slot,
    rejoin,
)
from dbcheck.lab.clusters.spec import (
    PATRONI_4,
    ClusterSpec,
    choose_cluster_kind,
    require_possible,
)
from dbcheck.lab.held_port import HeldPort
from dbcheck.lab.lab import Lab, require_buildable
from dbcheck.lab.link import Link
from dbcheck.lab.network import LOOPBACK, Source, list_missing_for_network
from dbcheck.lab.servers.base import require_undecided, standard_name
from dbcheck.lab.servers.mysql import require_no_group
from dbcheck.lab.servers.patroni import PatroniMember, is_synchronous, waits_for_quorum
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


_ETCD = "etcd"  # the host in the network that is no node


class ClusterLab:
    """The labs of one cluster, and its network, or its links to the writer.

    lab:  configuration of each node's lab.
    spec: configuration of the cluster.
    labs: name of each node -> its lab, the writer's first.
    kind: the kind of cluster that they form.
    writer: name of the node that takes writes, and that part() cuts off.
    network: that of the nodes, None if they are on 127.0.0.1.
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
        self.writer, self._parted = spec.names[0], ""
        self._ids = {name: number for number, name in enumerate(spec.names, 1)}
        self._last_id = spec.nodes
        self._links: dict[str, Link] = {}
        self._authority = Authority()
        self._ports: Sequence[object] = ()  # which the nodes keep while they are off
        self._held = contextlib.ExitStack()
        seed = lab.drive.seed + number * spec.nodes
        drives = [replace(lab.drive, seed=seed + node) for node in range(spec.nodes)]
        nodes = [
            replace(lab, drive=drive, network=spec.has_network) for drive in drives
        ]
        try:
            self.network = self._make_network()
            self._hosts = [self._find_host(name) for name in spec.names]
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

    def _make_network(self) -> Network | None:
        """Make the network of the nodes and etcd, if the cluster is to have one."""
        if not self.spec.has_network:
            return None
        if lacking := list_missing_for_network():
            raise LabError(
                f"cannot build this cluster's network: {'; '.join(lacking)}",
                id=ErrorId.LAB_NOT_BUILDABLE,
                hint="Fix that, or leave out --network and --partition-after.",
            )
        etcd = [_ETCD] if self.spec.is_managed_by_patroni else []
        network = Network([*self.spec.names, *etcd])
        self._held.callback(network.close)
        return network

    def _find_host(self, name: str) -> str:
        """Return the address at which the other nodes reach a node, or etcd."""
        return self.network.hosts[name].address if self.network else LOOPBACK

    def part(self, ways: Collection[Way]) -> None:
        """Drop what passes between the writer and all others these ways, and no others.

        The cluster must have a network.  Raise LabError.
        """
        assert self.network is not None
        self.network.drop(self.writer, ways)
        self._parted = self.writer if ways else ""

    def heal(self) -> None:
        """Let all nodes of the cluster's network reach each other; raise LabError."""
        if self.network is not None:
            self.network.heal()
        self._parted = ""

    @property
    def patroni_sets_synchronous(self) -> bool:
        """True if Patroni will set the writer to wait for a standby."""
        return self.spec.is_managed_by_patroni and is_synchronous(self.lab.settings)

    def take_links_down(self, *names: str) -> None:
        """Let nothing pass between the writer and the standbys *names*.

        Without *names*, take down the links of all standbys.  Below Patroni each node
        has a link to itself, and the standbys share the writer's.  In a network the
        writer is cut off from all others.
        """
        if self.network is not None:
            self.part(BOTH_WAYS)
        all_names = [self.writer] if self.spec.is_managed_by_patroni else self._links
        for name in names or ([] if self.network else all_names):
            self._links[name].take_down()

    def rejoin(self, name: str, writer: str) -> None:
        """Have the node *name* follow the new *writer*, as an operator does.

        The caller must wait until it follows.  Raise LabError.
        """
        self.heal()
        rejoin(self.labs[name], self.labs[writer], self._locate(writer, name))

    def rebuild(self, name: str, writer: str) -> None:
        """Have the node *name* follow the node *writer*, over a new link.

        A node that is cut off in the cluster's network stays so until it is rebuilt, or
        leads: a standby that still follows it would take what it alone holds.  It is
        rebuilt as the spec says, and *writer* waits for its standbys as the first
        writer did.  A node of a group, and of Patroni, joins by itself.  Return once
        the node has applied what *writer* has.  Raise LabError, and PowerError of a
        node that stayed off.
        """
        lab, new_writer = self.labs[name], self.labs[writer]
        if self._parted in (name, writer):
            self.heal()
        if self.spec.is_managed_by_patroni:
            self.writer = writer
            stays_off = not self.spec.old_writer_returns_s
            new_writer.reassign(new_writer.spec.settings, is_writer=stays_off)
            lab.reassign(lab.spec.settings)
            if self.network is None:
                self._links[name].bring_up()
            # Patroni looks up itself which server leads, and where.
            source = self._locate(writer, name)
            rebuild_below_patroni(lab, new_writer, source, self.spec.rebuild)
            return
        self._last_id += 1
        if self.kind.is_group:
            self.writer = writer
            source = self._locate(writer, name)
            settings = {**lab.spec.settings, "server_id": str(self._last_id)}
            rebuild_member(lab, new_writer, source, settings, self.spec.rebuild)
            return
        self._change_writer(writer)
        if rebuild(
            *(lab, new_writer, self._source(writer, name), self._make_settings(name)),
            *(self.spec.rebuild, self._last_id),
        ):
            self._ids[name] = self._last_id

    def _change_writer(self, writer: str) -> None:
        """Have *writer* be what the others follow, unless it is already."""
        if writer == self.writer:
            return
        self.writer = writer
        self._end_link(writer)
        lead(self.labs[writer], self._make_settings(writer))

    def close(self) -> None:
        """End all labs and links."""
        self._held.close()

    def __enter__(self) -> ClusterLab:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _begin_replication(self, nodes: Sequence[LabSpec], folder: Path) -> None:
        for name, node in zip(self.spec.names, nodes, strict=True):
            source = None
            if name != self.writer:
                source = self._source(self.writer, name)
                if node.engine == "postgresql":
                    make_slot(self.labs[self.writer], source)
            settings = self._make_settings(name)
            lab = self._start(name, replace(node, settings=settings), folder, source)
            if source is not None:
                follow(lab, source)

    def _make_settings(self, name: str) -> dict[str, str]:
        """Return the settings of a node that replicates, or is replicated."""
        names = self.spec.names
        given = {
            setting: swap_names(value, names[0], self.writer)
            if standard_name(setting) == SYNCHRONOUS
            else value
            for setting, value in self.lab.settings.items()
        }
        return make_node_settings(
            self.lab.engine,
            self._ids[name],
            [other for other in names if other != self.writer],
            given,
            is_writer=name == self.writer,
            cuts_all=Promise(self.spec.promise).cuts_all,
            host=self._find_host(name),
            awaited=self.spec.standbys_awaited,
        )

    @property
    def patroni_awaits_any(self) -> bool:
        """True if Patroni lists each standby that streams as one that may confirm."""
        is_managed = self.spec.is_managed_by_patroni
        return is_managed and waits_for_quorum(self.lab.settings)

    def _begin_patroni(self, nodes: Sequence[LabSpec], folder: Path) -> None:
        """Start one node after the other: the first finds no cluster, and leads."""
        is_4 = self.spec.promoted_by == PATRONI_4
        nodes = [replace(node, patroni=True, patroni_4=is_4) for node in nodes]
        require_buildable(nodes[0])
        place = self.network.hosts[_ETCD] if self.network else None
        etcd_port = self._held.enter_context(run_etcd(self._identify(_ETCD), place))
        password = secrets.token_urlsafe()
        for name, node in zip(self.spec.names, nodes, strict=True):
            link = None if self.network else self._begin_link(name)
            member = PatroniMember(
                *(name, etcd_port, link.port if link else 0, password),
                after_cut=name != self.writer or bool(self.spec.old_writer_returns_s),
                etcd_host=self._find_host(_ETCD),
            )
            lab = self._start(name, node, folder, member)
            if link is not None:
                link.lead_to(_port(lab))

    def _form_galera(self, nodes: Sequence[LabSpec], folder: Path) -> None:
        """Start one node after the other: each copies the data of a running node."""
        names = self.spec.names
        self._ports = ports = [Ports.held() for _ in nodes]
        for number, node in enumerate(nodes, 1):
            settings = make_galera_settings(
                *(names, number, ports, node.settings, self._hosts)
            )
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
            settings = make_group_settings(
                *(group, number, ports, node.settings, self._hosts)
            )
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
        lab = Lab.start(
            spec,
            lab_folder,
            source=source,
            identity=self._identify(name),
            place=self.network.hosts[name] if self.network else None,
        )
        self.labs[name] = self._held.enter_context(lab)
        return lab

    def _identify(self, name: str) -> Identity:
        """Return a certificate of the cluster's for a node or etcd, at its address."""
        addresses = [self._find_host(name)] if self.network else []
        return self._authority.issue_certificate(name, *addresses)

    def _source(self, writer: str, name: str) -> Source:
        """Return the writer as a source for the node *name*; without a network, a link.

        The link is a new one, of the node's name.
        """
        if self.network is not None:
            return self._locate(writer, name)
        lab, link = self.labs[writer], self._begin_link(name)
        link.lead_to(_port(lab))
        return Source(link.port, lab.password, name)

    def _locate(self, writer: str, name: str) -> Source:
        """Return the writer's server itself as a source for the node *name*."""
        lab = self.labs[writer]
        return Source(_port(lab), lab.password, name, self._find_host(writer))

    def _begin_link(self, name: str) -> Link:
        """Begin a link that take_links_down() knows as *name*; end the one before."""
        self._end_link(name)
        link = Link(self.spec.link_delay_ms)
        self._held.callback(link.close)
        self._links[name] = link
        return link

    def _end_link(self, name: str) -> None:
        if (link := self._links.pop(name, None)) is not None:
            link.close()


def _port(lab: Lab) -> int:
    port = make_url(lab.target_url).port
    assert port is not None  # a lab's URL has one
    return port
