"""Groups of hosts, and which of several values wins."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter

from dbcheck.errors import UsageError
from dbcheck.inventory.document import Value, entries, plain
from dbcheck.inventory.ranges import expand

ALL, UNGROUPED = "all", "ungrouped"
PRIORITY = "ansible_group_priority"
_SECTIONS = ("vars", "children", "hosts")
Variables = dict[str, Value]


@dataclass
class Group:
    """A group as the file describes it; parents: the groups that it is a child of."""

    name: str
    variables: Variables = field(default_factory=dict)
    parents: set[str] = field(default_factory=set)
    priority: int = 1


@dataclass
class Host:
    """A host, its own variables and the groups that name it."""

    name: str
    variables: Variables = field(default_factory=dict)
    groups: set[str] = field(default_factory=set)


class Tree:
    """All groups and hosts of one inventory."""

    def __init__(self, root: Value) -> None:
        """Read the groups in *root*; raise UsageError that names the line."""
        self.groups = {name: Group(name) for name in (ALL, UNGROUPED)}
        self.hosts: dict[str, Host] = {}
        for name, body in entries(root, "the inventory"):
            self._add_group(name, body)
        for group in self.groups.values():
            if group.name != ALL and not group.parents:
                group.parents.add(ALL)
        self._depths = self._measured()

    def groups_of(self, host: Host) -> list[Group]:
        """Return the groups of a host, the one whose variables win last."""
        direct = host.groups - {ALL, UNGROUPED} or {UNGROUPED}
        found: set[str] = {ALL}
        while direct:
            found |= direct
            direct = {p for name in direct for p in self.groups[name].parents} - found
        return sorted(
            (self.groups[name] for name in found),
            key=lambda group: (self._depths[group.name], group.priority, group.name),
        )

    def _measured(self) -> dict[str, int]:
        """Return how far each group is from the group all, by the longest way."""
        order = TopologicalSorter({g.name: g.parents for g in self.groups.values()})
        depths: dict[str, int] = {}
        try:
            for name in order.static_order():
                parents = self.groups[name].parents
                depths[name] = max((1 + depths[p] for p in parents), default=0)
        except CycleError as error:
            circle = " > ".join(error.args[1])
            raise UsageError(f"these groups contain one another: {circle}") from None
        return depths

    def _add_group(self, name: str, body: Value, parent: str | None = None) -> None:
        group = self.groups.setdefault(name, Group(name))
        if parent is not None and name != ALL:
            group.parents.add(parent)
        for section, content in entries(body, f"group {name}"):
            if section not in _SECTIONS:
                raise UsageError(
                    f"{content.where}: group {name} has an unknown key {section!r}",
                    hint="A group holds vars, children and hosts.",
                )
            what = f"{section} of group {name}"
            for key, value in entries(content, what, as_names=section != "vars"):
                self._add(section, group, key, value)

    def _add(self, section: str, group: Group, key: str, value: Value) -> None:
        if section == "children":
            self._add_group(key, value, group.name)
        elif section == "hosts":
            self._add_hosts(group, key, value)
        elif key == PRIORITY:
            group.priority = _priority(value)
        else:
            group.variables[key] = value

    def _add_hosts(self, group: Group, pattern: str, value: Value) -> None:
        try:
            names = expand(pattern)
        except ValueError as error:
            raise UsageError(
                f"{value.where}: host {pattern!r}: {error}",
                hint="Write db1, db[01:03] or db-[a:c]; a port is ansible_port.",
            ) from None
        for name in names:
            host = self.hosts.setdefault(name, Host(name))
            host.groups.add(group.name)
            host.variables |= dict(entries(value, f"host {name}"))


def merged(
    tree: Tree,
    group_vars: Mapping[str, Variables],
    host_vars: Mapping[str, Variables],
) -> dict[str, Variables]:
    """Return the variables of each host, from the weakest source to the strongest.

    As Ansible: a child wins over its parent, then the higher priority, then the
    later name; what group_vars/ says wins over all that the file says of groups.
    """
    result = {}
    for host in tree.hosts.values():
        groups = tree.groups_of(host)
        variables: Variables = {}
        for group in groups:
            variables |= group.variables
        for group in groups:
            variables |= group_vars.get(group.name, {})
        result[host.name] = variables | host.variables | host_vars.get(host.name, {})
    return result


def _priority(value: Value) -> int:
    try:
        return int(plain(value.value))
    except (OverflowError, TypeError, ValueError):
        raise UsageError(
            f"{value.where}: {PRIORITY} is {plain(value.value)!r}, not a number"
        ) from None
