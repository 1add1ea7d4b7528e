"""The names of a cluster's nodes, and what they become in a redacted bundle.

Records are keyed by the names of nodes, and texts of servers hold them: as words, and
inside of words, as in the name of a slot.  A whole text that is such a name is always
replaced.  In other texts a name with a digit or a hyphen and a letter beyond f is
replaced wherever it stands; any other one only where no letter or digit is beside it,
since a digest may hold it.  UUIDs, ids of runs and positions of PostgreSQL's log stay
as they are.

A name that is also a word of dbcheck, or of what a server says of itself, is refused:
to replace each such word would change what the records say, and show the name.  That
is known of the messages of TABLES alone: another word of a server's log, as CPU, is
replaced there, too, and the words around it may show the name.
"""

from __future__ import annotations

import enum
import ipaddress
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import UsageError
from dbcheck.model.host import Drive, Volume
from dbcheck.model.records import Manifest
from dbcheck.model.server import ServerFacts
from dbcheck.server_log.startlog import TABLES

_NAME_MIN = 2
KEPT = (
    r"(?P<kept>(?<![0-9a-z])[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}(?![0-9a-z])"
    r"|(?<![0-9a-z])\d{8}-\d{6}-[0-9a-f]{6}(?![0-9a-z])"
    r"|(?<![\w/.-])(?-i:[0-9A-F]{1,8}/[0-9A-F]{1,8})(?![\w/]))"
)
_LETTER = re.compile(r"[^\W\d_]")
# No hexadecimal digest holds such a name, and no ordinary word is one.
_LOOSE = re.compile(r"(?=.*[\d_-])(?=.*[g-z]).{4,}", re.IGNORECASE | re.DOTALL)
_MARKUP = re.compile(r"<(style|script)\b.*?</\1>|<[^>]*>", re.DOTALL)
# Files of texts; the logs of the witness are looked at event by event.
_TEXTS = (".json", ".jsonl", ".csv", ".html")


@dataclass(frozen=True, slots=True)
class NodeNames:
    """The nodes of some clusters.

    shown: name -> what it becomes.  forms: a name as texts may have it, in lower case
    -> what it becomes.
    """

    shown: Mapping[str, str]
    forms: Mapping[str, str]

    @classmethod
    def of(cls, names: Iterable[str], hosts: Iterable[str]) -> NodeNames:
        """Name the nodes node-1, node-2 ... in the order of *names*.

        A number is passed over if a node, or one of the *hosts*, has such a name.
        Raise UsageError if two names differ only in their case.
        """
        given = list(dict.fromkeys(names))
        taken = {name.lower() for name in (*given, *hosts)}
        if len({name.lower() for name in given}) < len(given):
            raise UsageError(
                f"the nodes {', '.join(sorted(given))} cannot be renamed: two names"
                " differ only in their case",
                id=ErrorId.REDACTION_NOT_POSSIBLE,
                hint=SHARE_REPORT,
            )
        shown, number = {}, 0
        for name in given:
            number += 1
            while f"node-{number}" in taken:
                number += 1
            shown[name] = f"node-{number}"
        forms = {name.lower(): shown[name] for name in given}
        for name in given:
            for form in _list_forms(name):
                forms.setdefault(form.lower(), shown[name])
        return cls(shown, forms)

    def make_pattern(self) -> str:
        """Return the part of a regular expression that finds the names in texts.

        A digit that follows a digit is a part of what is found: db10 is not db1.
        """
        known = sorted(self.forms, key=len, reverse=True)
        loose = "|".join(re.escape(one) for one in known if _LOOSE.fullmatch(one))
        words = "|".join(re.escape(one) for one in known)
        more = r"(?:(?<=\d)\d+)?"
        found = [rf"(?<![^\W_])(?:{words}){more}(?![^\W_])"]
        if loose:
            found.append(rf"(?:{loose}){more}")
        return "|".join(found)


SHARE_REPORT = "Share the report alone (dbcheck report), or leave out --redact."


def unclear_name_error(what: str, name: str) -> UsageError:
    """Return the error of a name that is something else in records, too.

    what: the kind of the name, "host" or "node".
    """
    return UsageError(
        f"the {what} {name} cannot be renamed: the records hold that word in other"
        " meanings",
        id=ErrorId.REDACTION_NOT_POSSIBLE,
        hint=SHARE_REPORT,
    )


def _list_forms(name: str) -> Iterator[str]:
    """Yield a name as URLs, JSON, CSV, SQL and the names of slots hold it.

    A slot has small letters, digits and underscores alone (PostgreSQL 17 manual,
    26.2.6.1).
    """
    yield from (quote(name), quote(name, safe=""), json.dumps(name)[1:-1])
    yield from (name.replace('"', '""'), name.replace("'", "''"))
    yield re.sub(r"[-.]", "_", name)


def list_nodes(manifest: Manifest) -> list[str]:
    """Return the names of a cluster's nodes; raise UsageError if one cannot be used.

    [] of a single server, whose node has the same name in every run.  An address is
    left out, as it is replaced by another address, and so is "localhost".
    """
    if not manifest.site.is_cluster:
        return []
    kept = re.compile(KEPT, re.IGNORECASE)
    named = [
        name for name in manifest.nodes if name != "localhost" and not is_address(name)
    ]
    for name in named:
        if len(name) < _NAME_MIN or not _LETTER.search(name) or kept.fullmatch(name):
            raise unclear_name_error("node", name)
    return named


def is_address(name: str) -> bool:
    """Return True if a name is an address of IPv4 or IPv6."""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


# Fields of records that hold names of nodes, or texts of people, as a whole.
_NAMING_FIELDS = frozenset(
    {
        *("member", "connection", "connections", "names", "shared", "members"),
        *("hostname", "addresses", "sender", "target", "witness", "user"),
        *("writer_name", "reader_name", "node", "cluster_name", "pod", "pods"),
        *("wsrep_node_name", "wsrep_cluster_name", "synchronous_standby_names"),
        *("primary_slot_name", "wsrep_node_address", "wsrep_cluster_address"),
    }
)
# Fields of records whose keys are names of nodes.
_KEYED_BY_NODE = frozenset(
    {"nodes", "off_s", "drives", "received", "elsewhere", "others"}
)
# Fields with words of a product, a kernel or a vendor, and never with a user's.
_FOREIGN_WORDS: Mapping[type, frozenset[str]] = {
    ServerFacts: frozenset({"product", "version", "platform"}),
    Volume: frozenset({"filesystem", "mount_options"}),
    Drive: frozenset({"model", "firmware", "write_cache"}),
}
# What lines of rows and of the drives' counts are keyed by.
_OF_LINES = ("row_id", "epoch", "session", "seq", "part", "payload", "at_s", "seconds")


def require_clear_nodes(nodes: NodeNames, records: object) -> None:
    """Raise UsageError if the name of a node has another meaning in *records*."""
    if not nodes.shown:
        return
    found = re.compile(nodes.make_pattern(), re.IGNORECASE)
    messages = [(e.begins, True) for table in TABLES.values() for e in table.entries]
    for text, may_be_inside in (*_list_other_texts(records), *messages):
        match = found.search(text) if may_be_inside else found.fullmatch(text)
        if match:
            raise unclear_name_error("node", _name_of(nodes, match.group()))


def _name_of(nodes: NodeNames, text: str) -> str:
    shown = nodes.forms.get(text.lower())
    return next((name for name, one in nodes.shown.items() if one == shown), text)


def _list_other_texts(value: object, of: str = "") -> Iterator[tuple[str, bool]]:
    """Yield each text of records that names no node, and whether its words count.

    of: the name of the field, or the key, that holds the value.
    """
    if isinstance(value, enum.Enum):
        yield str(value.value), True
    elif isinstance(value, str):
        yield value, False
    elif is_dataclass(value):
        foreign = _FOREIGN_WORDS.get(type(value), frozenset())
        for each in fields(value):
            yield each.name, True
            content = getattr(value, each.name)
            if each.name in foreign:
                yield str(content), True
            elif each.name not in _NAMING_FIELDS:
                yield from _list_other_texts(content, each.name)
    elif isinstance(value, Mapping):
        yield from _list_other_in_mapping(value, of)
    elif isinstance(value, list | tuple | set | frozenset):
        for one in value:
            yield from _list_other_texts(one, of)


def _list_other_in_mapping(
    value: Mapping[Any, Any], of: str
) -> Iterator[tuple[str, bool]]:
    for name, each in value.items():
        if of not in _KEYED_BY_NODE:
            yield str(name), True
        if str(name) not in _NAMING_FIELDS and "host" not in str(name):
            yield from _list_other_texts(each, str(name))
    yield from ((word, True) for word in _OF_LINES)


def require_no_node(nodes: NodeNames, folder: Path) -> None:
    """Raise UsageError if a text below *folder* still has the name of a node.

    Then it is a word of dbcheck's own, as of a field or a report, which may also have
    been replaced where it named no node.
    """
    if not nodes.shown:
        return
    found = re.compile(f"{KEPT}|{nodes.make_pattern()}", re.IGNORECASE)
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        texts = [path.relative_to(folder).as_posix()]
        if path.suffix in _TEXTS or path.name == "server.log":
            text = path.read_text("utf-8", errors="replace")
            texts.append(_MARKUP.sub(" ", text) if path.suffix == ".html" else text)
        for text in texts:
            for match in found.finditer(text):
                name = match.group().lower()
                if match.lastgroup != "kept" and name in nodes.forms:
                    raise unclear_name_error("node", _name_of(nodes, name))
