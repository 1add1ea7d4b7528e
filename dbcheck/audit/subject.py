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
_SIGNS_OF_DENIAL = (
    *("permission denied", "operation not permitted", "must be root"),
    "administrator rights",  # ssacli
)


@dataclass(frozen=True, slots=True)
class Fact:
    """One fact, and how it was read.

    value:  None if the fact could not be read; *why* then has the reason.
    how:    the command, file or statement that shows the fact, for reports.
    remedy: what would make it readable: a GRANT, a user, a package; "" if unknown.
    """

    value: str | None
    how: str
    why: str = ""
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class Subject:
    """One thing that the rules on its kind judge.

    name:    as reports show it, unique among the subjects of this kind.
    product, version: of a server; "" and () for other subjects.
    own:     if the subject stands for one account or database: its own facts.  Its
             other facts are the server's, and rules on them do not apply to it.
    words:   word of Rule.fix -> its text for this subject.
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
        all_values = {name: fact.value for name, fact in self.facts.items()}
        return {name: value for name, value in all_values.items() if value is not None}


def make_shown_fact(value: str, how: str) -> Fact:
    """Return a fact with the *value* that the host shows, unread if it is ""."""
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
    return AS_ROOT if any(sign in why.lower() for sign in _SIGNS_OF_DENIAL) else ""
