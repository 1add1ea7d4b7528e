"""Short findings of an audit, and settings beside those in effect in a session."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


class Severity(enum.Enum):
    """Severity of an unsafe value, the worst first.

    ERROR:   a cut or a crash loses acknowledged commits, or damages data.
    WARNING: it does so under conditions that dbcheck cannot exclude, or hides it.
    NOTE:    it loses nothing by itself; it limits what a PASS means.
    """

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"

    @property
    def rank(self) -> int:
        """0 for the worst."""
        return list(Severity).index(self)


class RuleStatus(enum.Enum):
    """Status of a fact under a rule."""

    SAFE = "safe"
    UNSAFE = "unsafe"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Flag:
    """One finding in short, as a run stores it.

    The rule's texts are not stored; the running program supplies them.

    rule:  its id.
    fact:  the fact that the rule judges.
    value: of the fact, None if it could not be read.
    """

    rule: str
    severity: Severity
    status: RuleStatus
    subject: str
    fact: str
    value: str | None

    @property
    def is_alarm(self) -> bool:
        """True if it is unsafe, and more than a note."""
        unsafe = self.status is RuleStatus.UNSAFE
        return unsafe and self.severity is not Severity.NOTE

    def __str__(self) -> str:
        value = "not known" if self.value is None else self.value
        text = f"{self.fact} is {value} ({self.subject})"
        return f"{self.severity.value} {self.rule}: {text}"


@dataclass(frozen=True, slots=True)
class ScopedSettings:
    """Settings of one account or database, or facts about the whole server.

    whose: for reports, e.g. "role app in database shop".
    how:   the statement or catalog that shows them.
    settings: name -> value as text.
    """

    whose: str
    how: str
    settings: Mapping[str, str]


def list_alarms(flags: Sequence[Flag]) -> list[Flag]:
    """Return the flags that are more than notes, the worst first."""
    alarms = (flag for flag in flags if flag.is_alarm)
    return sorted(alarms, key=lambda flag: flag.severity.rank)


def format_alarm_counts(flags: Sequence[Flag]) -> str:
    """Return the numbers of errors and warnings among *flags*, "" if there is none."""
    counts = []
    for severity in (Severity.ERROR, Severity.WARNING):
        number = sum(flag.severity is severity for flag in list_alarms(flags))
        if number:
            counts.append(f"{number} {severity.value}{'s' if number > 1 else ''}")
    return " and ".join(counts)
