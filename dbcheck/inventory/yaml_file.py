"""Reads a plain YAML inventory: hosts, vars and children, without Ansible.

It reads what can mean one thing alone, and then reads it as Ansible does.  For all
else it raises NotPlain: the file is then left to Ansible, never guessed at.  Among that
is all that depends on Ansible's rules of precedence: of two groups where neither is in
the other, and of a host or a group that is given twice, no value counts.
"""

from __future__ import annotations

import json
import keyword
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
import yaml  # type: ignore[import-untyped]

Variables = dict[str, Any]
# As Ansible: libyaml's parser, if PyYAML was built with it.
_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_ALL, _UNGROUPED = "all", "ungrouped"
_OF_THIS_MACHINE = {"localhost", "127.0.0.1"}
_NESTED_MAX = 32
_TAG = "tag:yaml.org,2002:"
_PLAIN_TAGS = frozenset(f"{_TAG}{name}" for name in ("str", "int", "bool", "null"))
_FLOAT = f"{_TAG}float"
_PLAIN_FLOAT = re.compile(r"[-+]?[0-9]+\.[0-9]+")
# Not a range (db[1:9]), a port (db1:22), a pattern or a template.
_NAME = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]{0,250}[A-Za-z0-9_])?")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NOT_OF_TEXT = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufefe\uff00-\U0010ffff]")
_SECTIONS = ("vars", "hosts", "children")
# Variables that Ansible sets itself, or that change how it merges others.
RESERVED = re.compile(
    r"ansible_(?:async_path|check_mode|collection_name|config_file|delegated_vars"
    r"|dependent_role_names|diff_mode|facts|forks|group_priority|inventory_sources"
    r"|limit|local|loop|loop_var|index_var|parent_role_\w+|play_\w+|playbook_python"
    r"|role_name|role_names|run_tags|search_path|skip_tags|verbosity|version)"
    r"|inventory_\w+|groups?|group_names|hostvars|vars|omit|playbook_dir|play_hosts"
    r"|role_\w+|environment|environ|__ansible_\w+"
)


class NotPlain(Exception):
    """What in a file is not plain; line: where it stands, 0 for the whole file."""

    def __init__(self, what: str, line: int = 0) -> None:
        super().__init__(what)
        self.what, self.line = what, line


class Group(msgspec.Struct):
    """The hosts and groups that are directly in a group, as Ansible lists them."""

    hosts: list[str] = []
    children: list[str] = []


@dataclass(frozen=True, slots=True)
class Listing:
    """The variables of each host, merged, and the hosts of each group.

    {{ }} is not replaced.  A group also holds the hosts of the groups in it.
    """

    hosts: Mapping[str, Variables]
    groups: Mapping[str, tuple[str, ...]]


def is_plain_name(name: str) -> bool:
    """Return True if a host can have that name: no pattern, and no group of Ansible."""
    return _NAME.fullmatch(name) is not None and name not in (_ALL, _UNGROUPED)


def is_plain_text(value: str) -> bool:
    """Return True if a variable of a plain YAML inventory can have that value."""
    return not _NOT_OF_TEXT.search(value)


def make_listing(
    variables_by_host: Mapping[str, Variables], groups: Mapping[str, Group]
) -> Listing:
    """Return the listing, with the hosts that have no variable."""
    names = (host for group in groups.values() for host in group.hosts)
    hosts = {
        name: variables_by_host.get(name, {}) for name in (*variables_by_host, *names)
    }
    return Listing(hosts, {name: _list_hosts_inside(name, groups) for name in groups})


def _list_hosts_inside(name: str, groups: Mapping[str, Group]) -> tuple[str, ...]:
    """Return the hosts in a group and in the groups below it, each once."""
    hosts, below, seen = dict[str, None](), [name], {name}
    for group_name in below:  # the list grows meanwhile
        group = groups.get(group_name, Group())
        hosts |= dict.fromkeys(group.hosts)
        below += [child for child in group.children if child not in seen]
        seen.update(group.children)
    return tuple(hosts)


def parse_yaml(text: str) -> Listing:
    """Return what a plain YAML inventory lists; raise NotPlain if it is not one."""
    root = _compose(text)
    reader = _Reader()
    for key, node in _pairs(root):
        if key.value == "plugin":
            raise NotPlain("names a plugin", _line(key))
        reader.add_group(key, node, "")
    return reader.listing()


def _compose(text: str) -> yaml.Node:
    """Return the root of the only document in *text*."""
    if text.startswith("$ANSIBLE_VAULT"):
        raise NotPlain("is encrypted with Ansible Vault")
    if found := _NOT_OF_TEXT.search(text):
        line = text.count("\n", 0, found.start()) + 1
        raise NotPlain("has a byte that is not plain text", line)
    if _is_json(text):
        raise NotPlain("is JSON")
    try:
        _require_plain_events(yaml.parse(text, Loader=_Loader))
        root = yaml.compose(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise NotPlain("is not YAML", mark.line + 1 if mark else 0) from None
    except (yaml.YAMLError, ValueError, RecursionError):
        raise NotPlain("is not YAML") from None
    if not isinstance(root, yaml.MappingNode):
        raise NotPlain("is not a mapping of groups")
    return root


def _is_json(text: str) -> bool:
    """Return True for JSON, whose numbers and repeated keys Ansible reads as JSON's."""
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _require_plain_events(events: Iterable[yaml.Event]) -> None:
    """Raise NotPlain for a tag, an alias, a directive, or a second document."""
    documents = depth = 0
    for event in events:
        line = event.start_mark.line + 1
        if isinstance(event, yaml.DocumentStartEvent):
            documents += 1
            if documents > 1:
                raise NotPlain("has a second YAML document", line)
            if event.version or event.tags:
                raise NotPlain("has a YAML directive (%)", line)
        elif isinstance(event, yaml.AliasEvent):
            raise NotPlain(f"has the YAML alias *{event.anchor}", line)
        elif getattr(event, "tag", None) is not None:
            raise NotPlain(f"has the YAML tag {event.tag}", line)
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        if depth > _NESTED_MAX:
            raise NotPlain("is nested too deeply", line)


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1


def _pairs(node: yaml.MappingNode) -> Iterator[tuple[yaml.ScalarNode, yaml.Node]]:
    """Yield each key of a mapping, all of them different text, with its value."""
    seen = set()
    for key, value in node.value:
        if not isinstance(key, yaml.ScalarNode) or key.tag != f"{_TAG}str":
            raise NotPlain("has a key that is not text (quote it)", _line(key))
        if key.value in seen:
            raise NotPlain(f"has the key {key.value[:60]} twice", _line(key))
        seen.add(key.value)
        yield key, value


def _is_null(node: yaml.Node) -> bool:
    return isinstance(node, yaml.ScalarNode) and node.tag == f"{_TAG}null"


def _to_mapping(
    node: yaml.Node, of: str
) -> Iterator[tuple[yaml.ScalarNode, yaml.Node]]:
    """Return the pairs of a mapping, none of an empty value."""
    if isinstance(node, yaml.MappingNode):
        return _pairs(node)
    if _is_null(node):
        return iter(())
    raise NotPlain(f"has no mapping for {of[:60]}", _line(node))


def _to_value(node: yaml.Node) -> Any:
    """Return the value of a variable; mappings are sorted, as Ansible shows them."""
    if isinstance(node, yaml.MappingNode):
        pairs = {key.value: _to_value(value) for key, value in _pairs(node)}
        for name in pairs:
            if name.startswith("__ansible"):
                raise NotPlain(f"has the key {name[:60]}", _line(node))
        return dict(sorted(pairs.items()))
    if isinstance(node, yaml.SequenceNode):
        return [_to_value(item) for item in node.value]
    is_plain = node.tag in _PLAIN_TAGS or (
        node.tag == _FLOAT and _PLAIN_FLOAT.fullmatch(node.value)
    )
    if not is_plain:
        raise NotPlain(
            f"has a value that YAML reads as a {node.tag.rpartition(':')[2]}"
            " (quote it if it is text)",
            _line(node),
        )
    try:
        value = yaml.constructor.SafeConstructor().construct_object(node)
    except (yaml.YAMLError, ValueError, LookupError):
        raise NotPlain("has a value that is not valid", _line(node)) from None
    if isinstance(value, str) and not is_plain_text(value):
        raise NotPlain("has a value that is not plain text", _line(node))
    return value


@dataclass(slots=True)
class _Given:
    """Variables of one host or group, each with the line that gives it."""

    values: Variables = field(default_factory=dict)
    lines: dict[str, int] = field(default_factory=dict)

    def add(self, owner: str, key: yaml.ScalarNode, node: yaml.Node) -> None:
        """Add a variable; raise NotPlain if another place gives it another value."""
        name: str = key.value
        if not _VARIABLE.fullmatch(name) or keyword.iskeyword(name):
            raise NotPlain(f"sets {name[:60]}, which names no variable", _line(key))
        if RESERVED.fullmatch(name):
            raise NotPlain(
                f"sets {name[:60]}, which has a meaning of its own to Ansible",
                _line(key),
            )
        value = _to_value(node)
        if name in self.values and not _are_same(self.values[name], value):
            raise NotPlain(f"sets {name} of {owner} twice", _line(key))
        self.values[name], self.lines[name] = value, _line(key)


def _are_same(one: object, other: object) -> bool:
    """Return True for equal values of one type: 1, 1.0 and true are different."""
    return repr(one) == repr(other)


class _Reader:
    """Collects the groups and hosts of one file."""

    def __init__(self) -> None:
        self._groups = {_ALL: Group([], [_UNGROUPED]), _UNGROUPED: Group()}
        self._variables: dict[str, _Given] = {_ALL: _Given()}
        self._hosts: dict[str, _Given] = {}
        self._all_hosts: dict[str, None] = {}  # those directly in all

    def add_group(self, key: yaml.ScalarNode, node: yaml.Node, parent: str) -> None:
        """Add a group with all that is in it; parent: the group it is in, or ""."""
        name = _to_name(key, "group")
        if name in (_UNGROUPED, "_meta", "hostvars") or (parent and name == _ALL):
            raise NotPlain(f"gives the group {name} itself", _line(key))
        group = self._groups.setdefault(name, Group([], []))
        given = self._variables.setdefault(name, _Given())
        for section, value in _to_mapping(node, f"the group {name}"):
            if section.value not in _SECTIONS:
                raise NotPlain(
                    f"has {section.value[:60]} in the group {name}, which is none of"
                    f" {', '.join(_SECTIONS)}",
                    _line(section),
                )
            for each, inside in _to_mapping(value, f"{section.value} of {name}"):
                if section.value == "vars":
                    given.add(f"the group {name}", each, inside)
                elif section.value == "hosts":
                    self._add_host(each, inside, name)
                else:
                    self.add_group(each, inside, name)
                    if each.value not in group.children:
                        group.children.append(each.value)

    def _add_host(self, key: yaml.ScalarNode, node: yaml.Node, group: str) -> None:
        name = _to_name(key, "host")
        given = self._hosts.setdefault(name, _Given())
        for each, value in _to_mapping(node, f"the host {name}"):
            given.add(f"the host {name}", each, value)
        if group == _ALL:
            self._all_hosts[name] = None
        elif name not in self._groups[group].hosts:
            self._groups[group].hosts.append(name)

    def listing(self) -> Listing:
        """Return the listing, once all groups were added."""
        if both := self._hosts.keys() & self._groups.keys():
            raise NotPlain(f"has a host and a group with the name {min(both)}")
        if self._hosts.keys() >= _OF_THIS_MACHINE:
            names = " and ".join(sorted(_OF_THIS_MACHINE))
            raise NotPlain(f"has both hosts, {names}: Ansible warns of that")
        above = self._find_groups_above()
        inside: dict[str, set[str]] = {name: set() for name in self._hosts}
        for name, group in self._groups.items():
            for host in group.hosts:
                inside[host] |= {name, *above[name]} - {_ALL}
        everything = self._groups[_ALL]
        has_parent = {c for g in self._groups.values() for c in g.children}
        everything.children += [
            name for name in self._groups if name not in has_parent | {_ALL}
        ]
        self._groups[_UNGROUPED].hosts = [h for h in self._all_hosts if not inside[h]]
        merged = {h: self._merge(h, inside[h], above) for h in sorted(self._hosts)}
        return make_listing(
            {host: variables for host, variables in merged.items() if variables},
            {
                name: group
                for name, group in sorted(self._groups.items())
                if group.hosts or group.children
            },
        )

    def _find_groups_above(self) -> dict[str, set[str]]:
        """Return, for each group, the groups that it is in; refuse a circle."""
        above: dict[str, set[str]] = {name: set() for name in self._groups}
        for name in self._groups:
            below = list(self._groups[name].children)
            for child in below:  # the list grows meanwhile
                if child == name:
                    raise NotPlain(f"has the group {name} in itself")
                if name not in above[child]:
                    above[child].add(name)
                    below += self._groups[child].children
        return above

    def _merge(
        self, host: str, groups: set[str], above: Mapping[str, set[str]]
    ) -> Variables:
        """Return the variables of a host: its own, else of its groups, else of all.

        Raise NotPlain if two groups give different values and neither is in the other.
        """
        merged = dict(self._variables[_ALL].values)
        own = self._hosts[host].values
        sources: dict[str, list[tuple[str, Any]]] = {}
        # A group after each that it is in.
        for group in sorted(groups, key=lambda name: (len(above[name]), name)):
            given = self._variables[group]
            for name, value in given.values.items():
                for other, its_value in sources.setdefault(name, []):
                    if other in above[group] or name in own:
                        continue
                    if not _are_same(its_value, value):
                        raise NotPlain(
                            f"sets {name} of the host {host} in the groups {other} and"
                            f" {group}, and neither is in the other",
                            given.lines[name],
                        )
                sources[name].append((group, value))
                merged[name] = value
        return dict(sorted((merged | own).items()))


def _to_name(key: yaml.ScalarNode, kind: str) -> str:
    name: str = key.value
    if not _NAME.fullmatch(name):
        what = f"has a {kind} whose name is a pattern, a range or not plain"
        raise NotPlain(f"{what}: {name[:60]!r}", _line(key))
    return name
