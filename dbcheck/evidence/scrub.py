"""Finds secrets in records and takes them out, and on request the names of hosts.

A target is stored without its password, so records should hold no secret.  But servers
log the statements of their clients, and errors quote command lines, connection strings
and headers.  Too much is taken out rather than too little: the end of a secret without
quotes cannot be seen, so all text up to the next blank is taken out.

Each host name is replaced by the same other name everywhere, so that equal names stay
equal, and so is the account that ran dbcheck, where a record names it as that.
Addresses become those that RFC 5737 and RFC 3849 set aside for documentation, as they
must still be addresses; loopback addresses stay as they are.

Of Kubernetes, the names of pods, namespaces, claims, volumes and what makes pods are
replaced, and what names a volume to its driver; uids and storage classes stay.
"""

from __future__ import annotations

import base64
import contextlib
import ipaddress
import itertools
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar
from urllib.parse import quote

from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError

from dbcheck.evidence.nodes import KEPT, NodeNames, is_address, unclear_name_error
from dbcheck.evidence.words import find_pods, list_other_words
from dbcheck.judge.result import Checked
from dbcheck.model.pods import PersistentVolume, Pod, PodVolume
from dbcheck.model.records import Manifest

SECRET_MIN = 4  # characters; a shorter one would match ordinary text

_SECRET_WORD = (
    r"(?:password|passwd|passphrase|pwd|secret|token|api[_-]?key|private[_-]?key"
    r"|secret[_-]?access[_-]?key|snmp[_-]?community)"
)
# 'a', E'a', 'it''s', ''a'' inside of another text, "a", $$a$$, and text without an end.
_QUOTED_TEXT = (
    r"''[^'\n]+''|\w{0,8}&?'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.|\"\")*\""
    r"|\$(?P<tag>\w*)\$.{0,9999}?\$(?P=tag)\$|'[^'\n]*|\"[^\"\n]*"
)
_VALUE = rf"{_QUOTED_TEXT}|\{{(?:[^}}]|\}}\}})*\}}|\S+"
_NO_SECRET = r"(?:yes|no|on|off|true|false|null|none|\(none\)|\d+)(?![^\s,;)\"'])"


def _compile_pattern(text: str) -> re.Pattern[str]:
    return re.compile(text, re.IGNORECASE | re.DOTALL)


# The group "secret" is what is taken out.
_PATTERNS = (
    _compile_pattern(
        r"-----BEGIN [A-Z ]*PRIVATE KEY(?: BLOCK)?-----(?P<secret>.*?)"
        r"(?:-----END [A-Z ]*KEY(?: BLOCK)?-----|\Z)"
    ),
    _compile_pattern(r"\bPrivate-Lines:\s{0,40}\d+\s(?P<secret>.*?)(?=Private-MAC|\Z)"),
    # SQL
    _compile_pattern(
        rf"(?<![\w'\"])\w*{_SECRET_WORD}\s{{0,40}}\(?\s{{0,40}}(?P<secret>{_QUOTED_TEXT})"
    ),
    _compile_pattern(
        r"\bset\s{1,40}password\b[^=\n]{0,300}=\s{0,40}(?:\w+\s{0,40}\(\s{0,40})?"
        rf"(?P<secret>{_QUOTED_TEXT})"
    ),
    _compile_pattern(
        r"\bidentified\s{1,40}(?:(?:with|via)\s{1,40}\S{1,80}\s{1,40})?(?:by|as|using)\s{1,40}"
        rf"(?:password\b\s{{0,40}}\(?\s{{0,40}})?(?P<secret>{_QUOTED_TEXT})"
    ),
    _compile_pattern(rf"\breplace\s{{1,40}}(?P<secret>{_QUOTED_TEXT})"),
    _compile_pattern(r"\bparameters: (?=\$1 = )(?P<secret>[^\n]+)"),
    # name = value, name: value, "name": "value", --name value
    _compile_pattern(
        rf"{_SECRET_WORD}[\"']?\s{{0,40}}(?:=>|:=|=|:)\s{{0,40}}(?!{_NO_SECRET})(?P<secret>{_VALUE})"
    ),
    _compile_pattern(rf"\bcommunity[\"']?\s{{0,40}}=\s{{0,40}}(?P<secret>{_VALUE})"),
    _compile_pattern(
        rf"(?<!\S)[\"']?-[\w-]*{_SECRET_WORD}\s{{1,40}}(?!-)(?P<secret>{_VALUE})"
    ),
    # Headers of HTTP
    _compile_pattern(
        r"\b(?:authorization|cookie)[\"']?\s{0,40}[:=]\s{0,40}[\"']?(?P<secret>[^\r\n\"']+)"
    ),
    _compile_pattern(r"\bbearer\s{1,40}(?P<secret>\S{6,})"),
    # URLs
    _compile_pattern(
        r"\b[a-z][a-z0-9+.-]{0,30}://[^\s/:@]{0,200}:(?P<secret>[^\s'\"<>]{1,999})@"
    ),
    _compile_pattern(r"\bhttps?://(?P<secret>[^\s/:@]{1,999})@"),
    # Tokens that are known by their look
    re.compile(
        r"(?P<secret>\b(?:AKIA|ASIA)[A-Z0-9]{16}\b|\bgh[pousr]_\w{20,}"
        r"|\beyJ[\w-]{8,}\.[\w-]+\.[\w-]*)"
    ),
)
# Programs that take a secret after an option of one letter, with the rest of the line.
_PROGRAMS = re.compile(
    r"\b(?:sshpass|fence_\w+|ipmitool|snmp\w+|mysql(?!d\b)\w*|mariadb(?!d\b)[\w-]*)"
    r" [^\n]*"
)
_ONE_LETTER_OPTION = re.compile(r"(?<!\S)[\"']?-[pPcAX]\s?(?!-)(?P<secret>\S+)")
_SECRET_NAME = re.compile(rf"{_SECRET_WORD}$", re.IGNORECASE)
_HARMLESS = re.compile(rf"{_NO_SECRET}$|$", re.IGNORECASE)


def is_secret(name: str, value: str) -> bool:
    """Return True if a *value* that has this *name* is a secret."""
    return bool(_SECRET_NAME.search(name)) and not _HARMLESS.match(value)


def describe_removed_secrets(count: int) -> str:
    """Return the number of removed secrets, in words."""
    if count == 1:
        return "1 text that looks like a secret was removed"
    return f"{count} texts that look like secrets were removed"


def replace_secrets(text: str, instead: Callable[[str], str]) -> str:
    """Return *text* with each secret replaced by what instead() returns for it."""

    def replace_secret(match: re.Match[str]) -> str:
        start, end = (at - match.start() for at in match.span("secret"))
        found = match.group()
        return found[:start] + instead(found[start:end]) + found[end:]

    def replace_in_line(match: re.Match[str]) -> str:
        return _ONE_LETTER_OPTION.sub(replace_secret, match.group())

    for pattern in _PATTERNS:
        text = pattern.sub(replace_secret, text)
    return _PROGRAMS.sub(replace_in_line, text)


def list_forms(secrets: Iterable[str]) -> list[str]:
    """Return the known *secrets* in every form that a text may have them in.

    The longest come first, so that no secret is replaced only in part.
    """
    forms: set[str] = set()
    for secret in secrets:
        if len(secret) >= SECRET_MIN:
            forms |= {secret, quote(secret), quote(secret, safe="")}
            forms |= {secret.replace("'", "''"), json.dumps(secret)[1:-1]}
            forms |= {secret.replace("\\", "\\\\").replace("'", "\\'")}
            forms |= set(_list_base64_forms(secret.encode()))
    return sorted(forms, key=lambda form: (-len(form), form))


def _list_base64_forms(secret: bytes) -> Iterable[str]:
    """Yield the base64 forms of a secret, by where it begins in a longer text."""
    for before in range(3):
        encoded = base64.b64encode(bytes(before) + secret).decode()
        # The first and the last characters depend on the bytes beside the secret.
        begin, end = -(-before * 8 // 6), (before + len(secret)) * 8 // 6
        if end - begin >= 2 * SECRET_MIN:
            yield encoded[begin:end]


T = TypeVar("T")
REMOVED = "[removed]"
_SOMETHING = re.compile(r"\w")
_IPV4 = re.compile(r"(?<![\d.])\d{1,3}(?:\.\d{1,3}){3}(?!\.?\d)")
_IPV6 = re.compile(r"(?<![\w:.])[0-9a-fA-F:]*:[0-9a-fA-F:]*:[0-9a-fA-F:.]*(?![\w])")
# Stands around the number of a name while others are looked for; no text has that
# character, which is of Unicode's private use.
_MARK = "\ue000"
_HIDDEN = re.compile(f"{_MARK}\\d+{_MARK}")
# Places of hosts that no record names: URLs, users' names, connection strings.
_HOST = rf"(?P<host>{_MARK}\d+{_MARK}|[A-Za-z0-9][\w-]*(?:\.[\w-]+)*)"
_HOSTS_IN_TEXT = tuple(
    re.compile(f"{before}{_HOST}", re.IGNORECASE)
    for before in (
        r"\b(?!https?:)[a-z][a-z0-9+.-]{0,30}://(?:[^\s/@'\"]{0,200}@)?",
        r"\bhost\s?=\s?['\"]?",
        r"(?<=[\w'])'?@'?",
        r"(?<!\S)(?:-J|proxyjump)\s(?:[\w.-]{1,80}@)?",
        r"\b(?:host name:|to resolve|valid for|hostname|match)\s'?",  # of TLS and DNS
        r"\bconnect to host\s",  # of ssh
    )
)
_OURS = re.compile(rf"host-\d+|localhost|\d+|{_MARK}\d+{_MARK}", re.IGNORECASE)
# Whose request the API of Kubernetes refuses.
_USERS_IN_TEXT = re.compile(r'(?<=\bUser ")[^"\n]{1,300}(?=" cannot )')
_OUR_USER = re.compile(r"user-\d+")
# Field -> the word that a name in it becomes, with a number.
_NAMES_IN_PODS: Mapping[type, Mapping[str, str]] = {
    Pod: {"namespace": "namespace", "name": "pod"},
    PodVolume: {"claim": "claim"},
    PersistentVolume: {"name": "volume", "handle": "handle"},
}
_OURS_IN_PODS = re.compile(r"(?:namespace|pod|claim|volume|handle)-\d+")
# A name with a digit or a hyphen, which no ordinary word of a message has.
_DISTINCT = re.compile(r"(?=.*[\d-]).{4,}", re.DOTALL)
# Where the name of a namespace is known as that: {0}; {1}: the pod's.  The last two are
# the kubelet's folder and file of a container's log.
_PLACES_OF_NAMESPACES = (
    *("namespaces/{0}/", 'namespace "{0}"', "namespace {0} ", "namespace {0}:"),
    *(".{0}.svc", "/pods/{0}_{1}_", "/containers/{1}_{0}_"),
)
_NAMED = ("namespace", "name")
_DOCUMENTATION_NETS = ("192.0.2", "198.51.100", "203.0.113")
_ADDRESSES_IN_NET = 254


class Scrub:
    """Replaces texts; equal texts are replaced by the same text everywhere.

    removed: how many secrets were taken out so far.
    nodes: the nodes of clusters, and what they become.  redacts: names are replaced.
    """

    def __init__(
        self,
        secrets: Iterable[str],
        names: Iterable[str] | None,
        nodes: Iterable[str] = (),
    ) -> None:
        """Take out *secrets*, and what looks like one.

        names: the hosts to rename; None: neither names nor addresses are replaced.
        nodes: of clusters, by their number; raise UsageError if two have one name.
        """
        self.removed = 0
        self._secrets = list_forms(secrets)
        self.redacts = names is not None
        self._given: dict[tuple[str, str], str] = {}
        self._counts: dict[str, int] = {}
        hosts = list(names or ())
        self.nodes = NodeNames.of(nodes, hosts)
        self._names = _compile_name_pattern(hosts, self.nodes)
        self._of_pods: dict[str, str] = {}  # what texts hold -> what they are to hold
        self._namespaces: dict[str, str] = {}  # as _of_pods
        self._pods: re.Pattern[str] | None = None

    def text(self, text: str) -> str:
        """Return *text* without secrets, and with the names that are shown instead."""
        if text in self.nodes.shown:
            return self.nodes.shown[text]
        for secret in self._secrets:
            self.removed += text.count(secret)
            text = text.replace(secret, REMOVED)
        text = replace_secrets(text, self._without)
        if not self.redacts:
            return text
        text = _USERS_IN_TEXT.sub(lambda found: self._user_of(found.group()), text)
        text, hidden = self._hide_names(text)
        text = _IPV4.sub(self._address, text)
        text = _IPV6.sub(self._address, text)
        if self._pods:
            text = self._pods.sub(lambda found: self._of_pods[found.group()], text)
        for name, shown in self._namespaces.items():
            text = text.replace(name, shown)
        for pattern in _HOSTS_IN_TEXT:
            text = pattern.sub(self._elsewhere, text)
        return _HIDDEN.sub(lambda found: hidden[found.group()], text)

    def _hide_names(self, text: str) -> tuple[str, dict[str, str]]:
        """Return *text* with a mark for each known name, and what each mark becomes.

        So nothing that is replaced later is found in a name that is shown instead.
        """
        hidden: dict[str, str] = {}
        text = text.replace(_MARK, "")
        if self._names is None:
            return text, hidden

        def hide(match: re.Match[str]) -> str:
            name = match.group()
            shown = name
            if match.lastgroup != "kept":
                shown = self.nodes.forms.get(name.lower()) or self._host_of(name)
            mark = f"{_MARK}{len(hidden)}{_MARK}"
            hidden[mark] = shown
            return mark

        return self._names.sub(hide, text), hidden

    def names_any(self, content: bytes) -> bool:
        """Return True if bytes, of which no record is known, name a host or a node."""
        if self._names is None:
            return False
        found = self._names.finditer(content.decode("utf-8", "replace"))
        return any(match.lastgroup != "kept" for match in found)

    def record(self, record: T) -> T:
        """Return a record whose texts are all passed through text().

        Names of fields and members of enumerations stay as they are.  Raise ValueError
        if a changed text is not valid in its record.
        """
        if self.redacts:
            self._learn_pods(record)
        found: T = self._value(record)
        return found

    def _learn_pods(self, value: Any) -> None:
        """Take the names of all pods of a record, which its other texts may hold."""
        known = len(self._of_pods)
        for pod in find_pods(value):
            self._learn(pod)
            for volume in pod.volumes:
                self._learn(volume)
                if volume.volume is not None:
                    self._learn(volume.volume)
            named = self._rename(pod)
            shown = f"{named['namespace']}/{named['name']}"
            self._of_pods[f"{pod.namespace}/{pod.name}"] = shown
            for place in _PLACES_OF_NAMESPACES:
                found = place.format(pod.namespace, pod.name)
                self._namespaces[found] = place.format(*map(named.get, _NAMED))
        if len(self._of_pods) > known:
            words = sorted(self._of_pods, key=len, reverse=True)
            choice = "|".join(map(re.escape, words))
            self._pods = re.compile(rf"(?<![\w.-])(?:{choice})(?![\w-])")

    def _learn(self, value: Pod | PodVolume | PersistentVolume) -> None:
        for name, shown in self._rename(value).items():
            was = getattr(value, name)
            if name != "namespace" and _DISTINCT.fullmatch(was):
                self._of_pods[was] = shown

    def _rename(self, value: Pod | PodVolume | PersistentVolume) -> dict[str, str]:
        """Return the fields of a pod, or of what it has mounted, that have names."""
        found = {}
        for name, kind in _NAMES_IN_PODS[type(value)].items():
            was = getattr(value, name)
            is_ours = not was or _OURS_IN_PODS.fullmatch(was)
            new = was if is_ours else self._instead(was, kind, f"{kind}-{{}}".format)
            found[name] = new
        return found

    def _value(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.text(value)
        if is_dataclass(value) and not isinstance(value, type):
            kept = {each.name: getattr(value, each.name) for each in fields(value)}
            if self.redacts and isinstance(value, Manifest | Checked) and value.user:
                kept["user"] = self._user_of(value.user)
            if self.redacts and isinstance(value, Pod | PodVolume | PersistentVolume):
                kept |= self._rename(value)
            if self.redacts and isinstance(value, Pod):
                kept["node"] = self._host_of(value.node)
            return type(value)(**{k: self._value(each) for k, each in kept.items()})
        if isinstance(value, Mapping):
            return dict(itertools.starmap(self._pair, value.items()))
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return type(value)(*map(self._value, value))
        if isinstance(value, list | tuple | set | frozenset):
            return type(value)(map(self._value, value))
        return value

    def _pair(self, name: Any, value: Any) -> tuple[Any, Any]:
        texts = isinstance(name, str) and isinstance(value, str)
        if texts and is_secret(name, value):
            return self._value(name), self._without(value)
        return self._value(name), self._value(value)

    def json_line(self, line: bytes) -> bytes:
        """Return a line of JSON whose texts are passed through text()."""
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            return self.text(line.decode("utf-8", "replace")).encode()
        found = self._value(value)
        return line if found == value else json.dumps(found).encode() + b"\n"

    def changes(self, value: Any) -> bool:
        """Return True if plain values hold a text that is to be changed."""
        before = self.removed
        changed: bool = self._value(value) != value
        self.removed = before
        return changed

    def _without(self, secret: str) -> str:
        if not _SOMETHING.search(secret.replace(REMOVED, "")):
            return secret
        self.removed += 1
        return REMOVED

    def _elsewhere(self, match: re.Match[str]) -> str:
        text, host = match.group(), match.group("host")
        return text.removesuffix(host) + self._host_of(host)

    def _host_of(self, name: str) -> str:
        is_ours = _OURS.fullmatch(name) or name in self.nodes.shown.values()
        if is_ours or is_address(name):
            return name
        return self._instead(name.lower(), "host", lambda n: f"host-{n}")

    def _user_of(self, name: str) -> str:
        if _OUR_USER.fullmatch(name):
            return name
        return self._instead(name, "user", lambda n: f"user-{n}")

    def _address(self, match: re.Match[str]) -> str:
        text = match.group()
        if text.endswith(":") and not text.endswith("::"):  # it ends a clause
            return f"{self._address_of(text[:-1])}:"
        return self._address_of(text)

    def _address_of(self, text: str) -> str:
        try:
            found = ipaddress.ip_address(text)
        except ValueError:
            return text
        if found.is_loopback or found.is_unspecified:
            return text
        if found.version == 4:
            return self._instead(str(found), "IPv4", _format_ipv4)
        return self._instead(str(found), "IPv6", lambda n: f"2001:db8::{n:x}")

    def _instead(self, name: str, kind: str, made: Callable[[int], str]) -> str:
        key = kind, name
        if key not in self._given:
            self._counts[kind] = self._counts.get(kind, 0) + 1
            self._given[key] = made(self._counts[kind])
        return self._given[key]


def _format_ipv4(number: int) -> str:
    net, host = divmod(number - 1, _ADDRESSES_IN_NET)
    if net >= len(_DOCUMENTATION_NETS):
        return f"240.0.{host // 256}.{host % 256}"
    return f"{_DOCUMENTATION_NETS[net]}.{host + 1}"


def _compile_name_pattern(
    names: Iterable[str], nodes: NodeNames
) -> re.Pattern[str] | None:
    """Return a pattern of *names*, the hosts in their domains, and longer forms.

    db1.corp.example stands for web7.corp.example too, and db1 for db1.corp.example.
    nodes: may have the names of hosts, and stand inside of words as well.
    """
    words = sorted({*filter(None, names), *nodes.shown}, key=len, reverse=True)
    if not words:
        return None
    domains = sorted(
        {domain for name in words if (domain := _find_domain(name))}, key=len
    )
    found = [rf"(?:[\w-]+\.)*{re.escape(one)}" for one in reversed(domains)]
    for word in words:
        more = "" if "." in word else r"(?:\.[a-z][\w-]*)*"
        found.append(re.escape(word) + more)
    choice = "|".join(found)
    hosts = rf"(?:(?<![\w.-])|(?<=\s-h))(?:{choice})(?![\w-])"
    if nodes.shown:
        hosts = f"{KEPT}|{hosts}|{nodes.make_pattern()}"
    return re.compile(hosts, re.IGNORECASE)


def _find_domain(name: str) -> str:
    """Return the domain of a host, "" if it has none of two labels or more."""
    domain = name.partition(".")[2]
    return domain if "." in domain else ""


def list_hosts(manifest: Manifest) -> set[str]:
    """Return the names of the hosts that a run names, long and short.

    Raise UsageError if one cannot be replaced, as the records use that word otherwise.
    """
    urls = [manifest.witness, *(node.target for node in manifest.nodes.values())]
    urls += filter(None, [manifest.client_target])
    urls += [manifest.copy.target] if manifest.copy else []
    found = {host for url in urls if (host := _host_of(url))}
    for node in manifest.nodes.values():
        if node.host and node.host.facts.hostname:
            found.add(node.host.facts.hostname)
        if node.pod and node.pod.node:
            found.add(node.pod.node)
    if manifest.site.is_cluster:
        found |= manifest.nodes.keys()
    found |= {other for name in found for other in _list_dns_forms(name)}
    names = {name for name in found if name != "localhost" and not is_address(name)}
    others = {word.lower() for word in list_other_words(manifest, urls)}

    def is_clear(name: str) -> bool:
        known = name.isdecimal() or name.lower() in others
        return len(name) >= _NAME_MIN and not known

    hosts_alone = names - manifest.nodes.keys() if manifest.site.is_cluster else names
    if unclear := sorted(name for name in hosts_alone if not is_clear(name)):
        raise unclear_name_error("host", unclear[0])
    return names | set(filter(is_clear, (name.partition(".")[0] for name in names)))


_NAME_MIN = 2


def _list_dns_forms(name: str) -> Iterator[str]:
    """Yield the other form of a name with letters beyond ASCII, as the DNS has it."""
    with contextlib.suppress(UnicodeError):
        yield name.encode("idna").decode("ascii")
    with contextlib.suppress(UnicodeError):
        yield name.encode("ascii").decode("idna")


def _host_of(url: str) -> str:
    try:
        return make_url(url).host or ""
    except (ArgumentError, ValueError):
        return ""
