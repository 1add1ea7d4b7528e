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
from dbcheck.inventory.entry import KNOWN, Entry, parse_entry
from dbcheck.inventory.fields import PREFIX, Fields
from dbcheck.inventory.listed import Variables
from dbcheck.model.cluster import CLUSTER_NODES_MIN, SiteKind
from dbcheck.model.replication import PromotedBy
from dbcheck.power import registry
from dbcheck.power.kinds.config import SwitchConfig

_OF_ALL = ("topology", "survives", "promoted_by", "promote")  # the writer is the same


def make_cluster(group: str, hosts: Sequence[Entry]) -> Entry:
    """Return the writer, with the other *hosts* of the group as its standbys.

    Raise UsageError if they do not describe one and the same cluster.
    """
    first = hosts[0]
    for name in _OF_ALL:
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
    writer = by_name.pop(first.writer)
    return replace(writer, standbys=tuple(by_name.values()))


def _host_error(
    host: Entry, group: str, what: str, *, id: ErrorId, hint: str
) -> UsageError:
    return UsageError(f"{host.inventory}: group {group}: {what}", id=id, hint=hint)


_TOPOLOGY, _WRITER = f"{PREFIX}topology", f"{PREFIX}writer"
_UNNAMED = "?"


@dataclass(frozen=True, slots=True)
class Inventory:
    """The targets of one file: the hosts that have a dbcheck_target.

    faults: name -> what is wrong with a host; commands on other hosts still work.
    others: hosts that are not targets.
    groups: name -> the hosts in it, and in the groups in it.
    clustered: hosts that are nodes of a cluster -> the name of its writer, "?" if the
               inventory does not name it.
    """

    file: str
    entries: Mapping[str, Entry]
    faults: Mapping[str, UsageError]
    others: frozenset[str]
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    clustered: Mapping[str, str] = field(default_factory=dict)

    def targets(self) -> list[str]:
        """Return the names of all targets, also of those that are invalid."""
        return [*self.entries, *self.faults]

    def members(self, names: Sequence[str]) -> list[str]:
        """Return each host that is named, and the targets of each group, once.

        Raise UsageError if a group has no target.  A host's name wins over a group's.
        """
        targets, found = self.targets(), list[str]()
        for name in names:
            if name in targets or name in self.others or name not in self.groups:
                found.append(name)
                continue
            if self.is_cluster(name):
                raise UsageError(
                    f"{self.file}: the group {name} is a cluster, and each of its hosts"
                    " depends on the others",
                    id=ErrorId.GROUP_IS_CLUSTER,
                    hint=f"Test it as one: dbcheck run {name}. Or name its hosts.",
                )
            inside = [host for host in self.groups[name] if host in targets]
            if not inside:
                raise UsageError(
                    f"{self.file}: no host in the group {name} has a {PREFIX}target",
                    id=ErrorId.INVENTORY_TARGET_MISSING,
                    hint=f"Give {PREFIX}target for its hosts, or name another group.",
                )
            found += inside
        return list(dict.fromkeys(found))

    def is_cluster(self, name: str) -> bool:
        """Return True if *name* is a group whose hosts are one cluster."""
        if name in self.targets() or name in self.others or name not in self.groups:
            return False
        inside = [self.clustered.get(host, "") for host in self.groups[name]]
        return bool(inside) and len(set(inside)) == 1 and inside[0] != ""

    def cluster(self, name: str) -> Entry:
        """Return the writer of the group *name*, which has the others as its standbys.

        Raise UsageError if the hosts of the group do not make a cluster.
        """
        inside = self.groups[name]
        writer = self.clustered[inside[0]]
        for host, other in self.clustered.items():
            if writer != _UNNAMED and other == writer and host not in inside:
                raise UsageError(
                    f"{self.file}: group {name}: {host} is a node of the same cluster"
                    " and not in this group",
                    id=ErrorId.CLUSTER_INCOMPLETE,
                    hint=f"Name a group that has all hosts whose {PREFIX}writer is"
                    f" {writer}: commits may wait for any of them.",
                )
        return make_cluster(name, [self.entry(host) for host in inside])

    def entry(self, name: str) -> Entry:
        """Return the target *name*; raise UsageError if it is invalid or missing."""
        if name in self.faults:
            raise self.faults[name]
        found = self.entries.get(name)
        if found is not None:
            return found
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

    What is wrong with one host is raised when that host is asked for.
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
    found = listed.read_listing(path)
    return make_inventory(path, found.hosts, found.groups)


def make_inventory(
    path: Path,
    hosts: Mapping[str, Variables],
    groups: Mapping[str, tuple[str, ...]] = MappingProxyType({}),
) -> Inventory:
    """Return the inventory in *path*, whose hosts have these variables."""
    found = _Found(str(path))
    for name, variables in hosts.items():
        found.add(Fields(name, variables, str(path)), variables)
    clustered = {
        name: str(own.get(_WRITER) or _UNNAMED)
        for name, own in hosts.items()
        if own.get(_TOPOLOGY)
    }
    return replace(found.inventory(), groups=groups, clustered=clustered)


class _Found:
    """Hosts with what is right and what is wrong about them."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._entries: dict[str, Entry] = {}
        self._switches: dict[str, SwitchConfig] = {}
        self._faults: dict[str, UsageError] = {}
        self._others: set[str] = set()

    def add(self, fields: Fields, variables: Variables) -> None:
        """Read a host, as far as it can be."""
        name = fields.host
        try:
            fields.refuse_unknown(KNOWN)
            if f"{PREFIX}target" not in variables:
                self._others.add(name)
                return
            self._switches[name] = registry.read_switch_config(fields)
            self._entries[name] = parse_entry(fields)
        except UsageError as error:
            self._faults[name] = error

    def inventory(self) -> Inventory:
        """Return the inventory, once every host was added."""
        for name in sorted(self._faults.keys() - self._switches.keys()):
            doubt = f"the power settings of {name} are invalid: {self._faults[name]}"
            for other, one in self._entries.items():
                self._entries[other] = replace(one, doubt=doubt)
        file = str(Path(self._file).resolve())
        entries = {
            name: replace(one, inventory=file) for name, one in self._entries.items()
        }
        self._refuse_shared("target", {n: e.target for n, e in entries.items()})
        witnesses = {n: e.witness.rstrip("/") for n, e in entries.items()}
        self._refuse_shared("witness", witnesses)
        switches = {n: plan.outlet() for n, plan in self._switches.items()}
        self._refuse_shared("power", switches)
        right = {n: e for n, e in entries.items() if n not in self._faults}
        return Inventory(self._file, right, self._faults, frozenset(self._others))

    def _refuse_shared(self, what: str, values: Mapping[str, Hashable]) -> None:
        """Note the fault of hosts that share a witness's folder, a switch or a server.

        A switch of a host that has a fault of its own is compared, too.
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
                hint="Each host needs its own; {{ inventory_hostname }} in a value "
                "stands for the host's name.",
            )
            for name in names:
                self._faults.setdefault(name, error)
