"""Subjects of the audit: a server, a filesystem, a drive ..., and their facts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from dbcheck.audit.rule import SubjectKind
from dbcheck.model.host import Reading

AS_ROOT = (
    "log in there as root (--target-host ssh://root@HOST, or ansible_user in the"
    " inventory)"
)
_DENIED = (
    *("permission denied", "operation not permitted", "must be root"),
    "administrator rights",  # ssacli
)


@dataclass(frozen=True, slots=True)
class Fact:
    """One fact, and how it was read.

    value:  None if it could not be read; why has the reason then.
    how:    the command, file or statement that shows it, for reports.
    remedy: what would make it readable: a GRANT, a user, a package; "" if unknown.
    """

    value: str | None
    how: str
    why: str = ""
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class Subject:
    """One thing that rules of its kind are judged on.

    name:    as reports show it, unlike any other's of its kind.
    product, version: of a server, "" and () else.
    own:     if it stands for one account or database: the facts that are its own; the
             others are the server's, and rules on them say nothing about it.
    words:   word of Rule.fix -> what it stands for here.
    """

    kind: SubjectKind
    name: str
    facts: Mapping[str, Fact]
    product: str = ""
    version: tuple[int, ...] = ()
    own: frozenset[str] | None = None
    words: Mapping[str, str] = field(default_factory=dict)

    @property
    def values(self) -> dict[str, str]:
        """The facts that could be read."""
        read = {name: fact.value for name, fact in self.facts.items()}
        return {name: value for name, value in read.items() if value is not None}


def make_shown_fact(value: str, how: str) -> Fact:
    """Return a fact that the host shows, or does not."""
    return Fact(value, how) if value else Fact(None, how, "not reported by the host")


def parse_fact(reading: Reading | None, parse: Callable[[str], str | None]) -> Fact:
    """Return the fact that *parse* finds in a reading, or why it is not known."""
    if reading is None:
        return Fact(None, "", "nothing on this host shows it")
    value = parse(reading.text)
    if value is not None:
        return Fact(value, reading.how)
    why = reading.why or f"{reading.how} does not show it"
    return Fact(None, reading.how, why, find_remedy(reading.why))


def find_remedy(why: str) -> str:
    """Return the remedy for a reading that failed, "" if none is known."""
    if "not installed" in why:
        return f"install it there: {why.split()[0]}"
    return AS_ROOT if any(each in why.lower() for each in _DENIED) else ""
