"""Reads the targets of an inventory file, and groups whose hosts are one cluster."""

from __future__ import annotations

import difflib
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import UsageError
from dbcheck.inventory import listed
from dbcheck.inventory.entry import KNOWN, KUBERNETES, NODE, Entry, parse_entry
from dbcheck.inventory.fields import PREFIX, Fields
from dbcheck.inventory.machines import Machine, parse_machine, read_node_name
from dbcheck.inventory.yaml_file import Variables
from dbcheck.model.cluster import CLUSTER_NODES_MIN, SiteKind
from dbcheck.model.replication import PromotedBy, RebuiltBy
from dbcheck.power import registry
from dbcheck.power.kinds.config import SwitchConfig

# Variables that must be the same for all hosts of a cluster.
_COMMON_VARIABLES = (
    *("topology", "survives", "stagger_s"),
    *("promoted_by", "promote", "rebuilt_by", "replication_user"),
    *("fault", "fault_end"),
)


def make_cluster(group: str, hosts: Sequence[Entry]) -> Entry:
    """Return the writer, with the other *hosts* of the group as its standbys.

    Raise UsageError if they do not describe one and the same cluster.
    """
    first = hosts[0]
    for name in _COMMON_VARIABLES:
        values = {getattr(host, name) for host in hosts}
        if len(values) > 1:
            raise _host_error(
                first,
                group,
                f"its hosts do not have the same {PREFIX}{name}",
                id=ErrorId.CLUSTER_VARIABLES_DIFFER,
                hint="Set it once, in the vars of the group.",
            )
    if len(hosts) < CLUSTER_NODES_MIN:
        raise _host_error(
            first,
            group,
            "a cluster has two hosts or more",
            id=ErrorId.CLUSTER_TOO_SMALL,
            hint="Add its standbys.",
        )
    by_name = {host.name: host for host in hosts}
    if first.writer not in by_name:
        raise _host_error(
            first,
            group,
            f"{PREFIX}writer is {first.writer!r}, which is not one of its hosts",
            id=ErrorId.WRITER_NOT_IN_CLUSTER,
            hint=f"Name the host that takes the writes: {', '.join(by_name)}.",
        )
    by_command = first.promote or first.promoted_by == PromotedBy.COMMAND.value
    if by_command and SiteKind(first.topology).is_group:
        raise _host_error(
            first,
            group,
            f"no node of {first.topology} is promoted",
            id=ErrorId.PROMOTION_NOT_FOR_GROUP,
            hint=f"Leave out {PREFIX}promote; {PREFIX}promoted_by may be sql or auto."
            " The nodes decide by majority who takes writes.",
        )
    if bool(first.promote) != (first.promoted_by == PromotedBy.COMMAND.value):
        raise _host_error(
            first,
            group,
            f"{PREFIX}promote goes with {PREFIX}promoted_by: command",
            id=ErrorId.PROMOTION_INCOMPLETE,
            hint="Give both, or neither.",
        )
    _require_rebuild(group, hosts)
    writer = by_name.pop(first.writer)
    return replace(writer, cluster=group, standbys=tuple(by_name.values()))


# Who can rebuild the nodes of a cluster, beside the cluster itself.
_REBUILT_BY = {
    SiteKind.STREAMING: (RebuiltBy.SQL, RebuiltBy.COMMAND),
    SiteKind.SEMI_SYNC: (RebuiltBy.SQL, RebuiltBy.CLONE, RebuiltBy.COMMAND),
    SiteKind.GALERA: (RebuiltBy.COMMAND,),
    SiteKind.GROUP_REPLICATION: (RebuiltBy.SQL, RebuiltBy.COMMAND),
}


def _require_rebuild(group: str, hosts: Sequence[Entry]) -> None:
    """Raise UsageError unless each host can be rebuilt in the way that it names."""
    for host in hosts:
        kind, by = SiteKind(host.topology), RebuiltBy(host.rebuilt_by)
        possible = (*_REBUILT_BY[kind], RebuiltBy.AUTO, RebuiltBy.NOBODY)
        if by not in possible:
            raise _host_error(
                host,
                group,
                f"{PREFIX}rebuilt_by is {by.value!r}, and no host of {kind.value} can"
                " be rebuilt so",
                id=ErrorId.REBUILD_NOT_POSSIBLE,
                hint=f"Use {' or '.join(each.value for each in possible)}.",
            )
        needs_program = by is RebuiltBy.COMMAND or (
            # No statement makes a PostgreSQL that took writes a standby.
            by is RebuiltBy.SQL and kind is SiteKind.STREAMING
        )
        unused = by in (RebuiltBy.NOBODY, RebuiltBy.AUTO) or kind.is_group
        if (needs_program and not host.rebuild) or (
            unused and not needs_program and host.rebuild
        ):
            raise _host_error(
                host,
                group,
                f"{PREFIX}rebuild of host {host.name} does not fit {PREFIX}rebuilt_by:"
                f" {by.value}",
                id=ErrorId.REBUILD_INCOMPLETE,
                hint=f"{PREFIX}rebuilt_by: command needs {PREFIX}rebuild, and so does"
                " sql of PostgreSQL; nobody, auto, and sql of a group have none.",
            )


def _host_error(
    host: Entry, group: str, what: str, *, id: ErrorId, hint: str
) -> UsageError:
    return UsageError(f"{host.inventory}: group {group}: {what}", id=id, hint=hint)


_TOPOLOGY, _WRITER = f"{PREFIX}topology", f"{PREFIX}writer"
_UNNAMED_WRITER = "?"


@dataclass(frozen=True, slots=True)
class Inventory:
    """The targets of one file: the hosts that have a dbcheck_target.

    faults: name -> what is wrong with a host; commands on other hosts still work.
    others: hosts that are not targets, with their variables; they may be the nodes of
               Kubernetes.
    groups: name of a group -> the hosts in it, and in the groups in it.
    clustered: host that is a node of a cluster -> the name of the cluster's writer, "?"
               if the inventory does not name it.
    switches: target -> its switch, also of one with a fault elsewhere.
    """

    file: str
    entries: Mapping[str, Entry]
    faults: Mapping[str, UsageError]
    others: Mapping[str, Fields]
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    clustered: Mapping[str, str] = field(default_factory=dict)
    switches: Mapping[str, SwitchConfig] = field(default_factory=dict)

    def targets(self) -> list[str]:
        """Return the names of all targets, also of those that are invalid."""
        return [*self.entries, *self.faults]

    def all_targets(self) -> list[str]:
        """Return the names of all targets; a cluster is one, by its group's name.

        Hosts of a cluster that no group has alone are named one by one.
        """
        whole = dict[str, set[str]]()
        for host, writer in self.clustered.items():
            if writer != _UNNAMED_WRITER:
                whole.setdefault(writer, set()).add(host)
        clusters = dict[frozenset[str], str]()
        for name, hosts in self.groups.items():
            if set(hosts) in whole.values():
                clusters.setdefault(frozenset(hosts), name)
        inside = frozenset[str]().union(*clusters)
        return [
            *(name for name in self.targets() if name not in inside),
            *clusters.values(),
        ]

    def members(self, names: Sequence[str]) -> list[str]:
        """Return the hosts among *names*, and the targets of the groups, each once.

        A group that is a cluster is one target, by its own name.
        Raise UsageError if a group has no target.  A name of both is the host's.
        """
        targets, members = self.targets(), list[str]()
        for name in names:
            is_host = name in targets or name in self.others or name not in self.groups
            if is_host or self.is_cluster(name):
                members.append(name)
                continue
            inside = [host for host in self.groups[name] if host in targets]
            if not inside:
                raise UsageError(
                    f"{self.file}: no host in the group {name} has a {PREFIX}target",
                    id=ErrorId.INVENTORY_TARGET_MISSING,
                    hint=f"Give {PREFIX}target for its hosts, or name another group.",
                )
            members += inside
        return list(dict.fromkeys(members))

    def is_cluster(self, name: str) -> bool:
        """Return True if *name* is a group whose hosts are one cluster."""
        if name in self.targets() or name in self.others or name not in self.groups:
            return False
        writers = [self.clustered.get(host, "") for host in self.groups[name]]
        return bool(writers) and len(set(writers)) == 1 and writers[0] != ""

    def cluster(self, name: str) -> Entry:
        """Return the writer of the group *name*, with its other hosts as standbys.

        Raise UsageError if the hosts of the group do not make a cluster.
        """
        hosts = self.groups[name]
        writer = self.clustered[hosts[0]]
        for host, its_writer in self.clustered.items():
            if writer != _UNNAMED_WRITER and its_writer == writer and host not in hosts:
                raise UsageError(
                    f"{self.file}: group {name}: {host} is a node of the same cluster"
                    " and not in this group",
                    id=ErrorId.CLUSTER_INCOMPLETE,
                    hint=f"Name a group that has all hosts whose {PREFIX}writer is"
                    f" {writer}: commits may wait for any of them.",
                )
        return make_cluster(name, [self.entry(host) for host in hosts])

    def machine(self, name: str) -> Machine:
        """Return a host without a target of its own, as a node of Kubernetes.

        Raise UsageError if its variables are wrong, or another host has its switch.
        """
        machine = parse_machine(self.others[name])
        outlet = machine.power.outlet()
        for other in (*self.others, *self.switches):
            if outlet and other != name and self._find_outlet(other) == outlet:
                raise UsageError(
                    f"{self.file}: hosts {name} and {other} have the same"
                    f" {PREFIX}power",
                    id=ErrorId.HOSTS_SHARE_VALUE,
                    hint="Give each host its own switch.",
                )
        return machine

    def find_machine(self, node: str) -> Machine | None:
        """Return the host that Kubernetes calls *node*, None if there is none.

        Raise UsageError if there are several.
        """
        named = [n for n, host in self.others.items() if read_node_name(host) == node]
        if len(named) > 1:
            raise UsageError(
                f"{self.file}: hosts {named[0]} and {named[1]} are both the node {node}"
                " of Kubernetes",
                id=ErrorId.HOSTS_SHARE_VALUE,
                hint=f"A host without {NODE} is the node of its own name.",
            )
        return self.machine(named[0]) if named else None

    def _find_outlet(self, name: str) -> Hashable:
        """Return what identifies the switch of a host, None if nothing does."""
        if name in self.switches:
            return self.switches[name].outlet()
        try:
            return registry.read_switch_config(self.others[name]).outlet()
        except UsageError as error:
            raise UsageError(
                f"the power settings of {name} are invalid: {error}",
                id=error.id,
                hint=error.hint,
            ) from None

    def entry(self, name: str) -> Entry:
        """Return the target *name*; raise UsageError if it is invalid or missing."""
        if name in self.faults:
            raise self.faults[name]
        entry = self.entries.get(name)
        if entry is not None:
            return entry
        if name in self.others:
            raise UsageError(
                f"{self.file}: host {name}: {PREFIX}target is missing",
                id=ErrorId.INVENTORY_TARGET_MISSING,
                hint=f"Give {PREFIX}target for the host, or for a group it is in.",
            )
        if name in self.groups:
            raise UsageError(
                f"{self.file}: {name} is a group, and this takes one host",
                id=ErrorId.ONE_HOST_NEEDED,
                hint=f"Name a host of it: {', '.join(self.groups[name]) or 'none'}. If"
                f" its hosts are one cluster, set {_TOPOLOGY} and {_WRITER} once, in"
                " the vars of the group.",
            )
        names = sorted([*self.targets(), *self.groups])
        close = difflib.get_close_matches(name, names, 1)
        known = ", ".join(names) or "none"
        raise UsageError(
            f"{self.file} has no host {name}",
            id=ErrorId.HOST_UNKNOWN,
            hint=f"Is it {close[0]}?" if close else f"Its targets are: {known}.",
        )


def load_inventory(path: Path) -> Inventory:
    """Return the inventory in *path*; raise UsageError if it cannot be read.

    The fault of a host is raised by Inventory.entry(), once that host is asked for.
    """
    if not path.exists():
        raise UsageError(
            f"the inventory {path} does not exist",
            id=ErrorId.INVENTORY_MISSING,
            hint="Run dbcheck init to write one, or name it with --inventory.",
        )
    if not path.is_file() and not path.is_dir():
        raise UsageError(
            f"the inventory {path} is not a file or a folder",
            id=ErrorId.FILE_NOT_READABLE,
            hint="Write what a pipe would give into a file, and name that.",
        )
    listing = listed.read_listing(path)
    return make_inventory(path, listing.hosts, listing.groups)


def make_inventory(
    path: Path,
    hosts: Mapping[str, Variables],
    groups: Mapping[str, tuple[str, ...]] = MappingProxyType({}),
) -> Inventory:
    """Return the inventory in *path*.

    hosts: name of a host -> its variables.  groups: name of a group -> its hosts.
    """
    builder = _InventoryBuilder(str(path))
    for name, variables in hosts.items():
        builder.add(Fields(name, variables, str(path)), variables)
    clustered = {
        name: str(variables.get(_WRITER) or _UNNAMED_WRITER)
        for name, variables in hosts.items()
        if variables.get(_TOPOLOGY)
    }
    return replace(builder.inventory(), groups=groups, clustered=clustered)


class _InventoryBuilder:
    """Collects the hosts of an inventory, with the faults that each has."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._entries: dict[str, Entry] = {}
        self._switches: dict[str, SwitchConfig] = {}
        self._faults: dict[str, UsageError] = {}
        self._others: dict[str, Fields] = {}

    def add(self, fields: Fields, variables: Variables) -> None:
        """Add the host of *fields*: as a target, as another host, or with its fault."""
        name = fields.host
        try:
            fields.refuse_unknown(KNOWN)
            if f"{PREFIX}target" not in variables:
                self._others[name] = fields
                return
            if KUBERNETES not in variables:
                self._switches[name] = registry.read_switch_config(fields)
            self._entries[name] = parse_entry(fields)
        except UsageError as error:
            self._faults[name] = error

    def inventory(self) -> Inventory:
        """Return the inventory, once every host was added."""
        for name in sorted(self._faults.keys() - self._switches.keys()):
            doubt = f"the power settings of {name} are invalid: {self._faults[name]}"
            for other, entry in self._entries.items():
                self._entries[other] = replace(entry, doubt=doubt)
        file = str(Path(self._file).resolve())
        entries = {
            name: replace(entry, inventory=file)
            for name, entry in self._entries.items()
        }
        self._refuse_shared("target", {n: e.target for n, e in entries.items()})
        witnesses = {n: e.witness.rstrip("/") for n, e in entries.items()}
        self._refuse_shared("witness", witnesses)
        outlets = {n: config.outlet() for n, config in self._switches.items()}
        self._refuse_shared("power", outlets)
        valid = {n: e for n, e in entries.items() if n not in self._faults}
        return Inventory(
            self._file, valid, self._faults, self._others, switches=self._switches
        )

    def _refuse_shared(self, what: str, values: Mapping[str, Hashable]) -> None:
        """Note a fault of the hosts that have the same one of *values*.

        what: the variable of the values, without its prefix.  values: name of a host ->
        its value.  The switch of a host with another fault is compared, too.
        """
        users: dict[Hashable, list[str]] = {}
        for name, value in values.items():
            if value:
                users.setdefault(value, []).append(name)
        for names in users.values():
            if len(names) == 1:
                continue
            error = UsageError(
                f"{self._file}: hosts {names[0]} and {names[1]} have the same "
                f"{PREFIX}{what}",
                id=ErrorId.HOSTS_SHARE_VALUE,
                hint="Give each host its own. One witness may serve them all, each in a"
                " folder of its own: end its URL with {{ inventory_hostname }}, which"
                " stands for the host's name.",
            )
            for name in names:
                self._faults.setdefault(name, error)
