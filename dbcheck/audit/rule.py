"""A rule of the audit: one fact, its safe values, and the harm of unsafe values."""

from __future__ import annotations

import enum
import string
from collections.abc import Mapping
from dataclasses import dataclass, field

from dbcheck.model.audited import Severity
from dbcheck.model.depth import Depth
from dbcheck.server_log import Product

Condition = tuple[str, frozenset[str]]  # a fact, and values of it in lower case


class SubjectKind(enum.Enum):
    """Kind of subject that a rule is about."""

    SERVER = "server"
    HOST = "host"
    FILESYSTEM = "filesystem"
    LAYER = "block device"
    DRIVE = "drive"
    CONTROLLER = "RAID controller"
    POD = "pod"
    CLAIM = "volume claim"


@dataclass(frozen=True, slots=True)
class Harm:
    """Harm that an unsafe value of a setting can do.

    depth:      the shallowest cut that loses commits under the value; None if no cut
                loses any by this setting alone.
    everything: the value can lose all rows, also those that were committed long before.
    hides:      rows that are read while the value is in effect prove nothing: lost rows
                may come back from other servers, or existing rows may be left out.
    peers:      the server's peers may give it back what it lost; this hides a loss only
                where the server is tested alone.
    end:        the value loses only the last commits: the commits that survive are a
                clean beginning of all commits.
    tears:      the value loses commits only where the storage lets a cut tear a page in
                two; where pages are written whole or not at all, it loses nothing.
    """

    depth: Depth | None = None
    everything: bool = False
    hides: bool = False
    peers: bool = False
    tears: bool = False
    end: bool = False


# Word of a Fix -> its text where no subject is known.
_WORDS_FOR_ANY_SUBJECT = {
    "BACKING": "losetup -l shows it",
    "CACHE_OFF": "hdparm -W 0, sdparm --clear=WCE or nvme set-feature -f 6 -v 0",
    "DEVICE": "DEVICE",
    "MOUNT": "the filesystem",
    "SOURCE": "DATASET",
}


@dataclass(frozen=True, slots=True)
class Fix:
    """Remedy that makes a subject safe; words such as $DEVICE differ by subject.

    str() returns the remedy for any subject, without such words.
    """

    template: str

    def __post_init__(self) -> None:
        """Refuse a word that has no text where no subject is known."""
        string.Template(self.template).substitute(_WORDS_FOR_ANY_SUBJECT)

    def on(self, words: Mapping[str, str]) -> str:
        """Return the fix for a subject; words: as in Subject."""
        return string.Template(self.template).substitute(
            {**_WORDS_FOR_ANY_SUBJECT, **words}
        )

    def __str__(self) -> str:
        return self.on({})


@dataclass(frozen=True, slots=True)
class Rule:
    """One fact that decides whether COMMIT survives a power cut.

    id:       stable name used in reports, e.g. "pg-fsync".
    fact:     name of the subject's fact that the rule judges.
    why:      one sentence on what an unsafe value does.
    fix:      what makes the subject safe: a statement or a command where there is one;
              a Fix if it differs by subject.
    source:   page and version that the claim rests on.
    severity: severity of an unsafe value.
    safe:     the values, in lower case, under which an ack is durable.
    unsafe:   all other values, given instead of *safe* if they are fewer.
    subject:  kind of subject that has the fact.
    harm:     what an unsafe value does to the rows of a run, None if it does nothing to
              them.  harms: value in lower case -> its own harm.
    only:     the rule applies only under these conditions; if their fact could not be
              read, an unsafe value has the status unknown.
    unless:   the rule does not apply under these conditions; if their fact could not be
              read, the rule applies.
    product:  the only product that the rule applies to, None for all of its family.
    since, before: the versions of the product that the rule applies to; () for any.
    tables:   the only storage engine whose tables the rule is about, "" for any: a
              run's verdict depends on the rule only if its tables are of that engine.
    absent_is_safe: subjects without the fact behave as if its value were safe.
    no_receipt: why no lab shows the claim of the rule, "" if the matrix `receipts`
              shows it, or if the rule claims no loss.
    """

    id: str
    fact: str
    why: str
    fix: str | Fix
    source: str
    severity: Severity
    safe: frozenset[str] = frozenset()
    unsafe: frozenset[str] = frozenset()
    subject: SubjectKind = SubjectKind.SERVER
    harm: Harm | None = None
    harms: Mapping[str, Harm] = field(default_factory=dict)
    only: tuple[Condition, ...] = ()
    unless: tuple[Condition, ...] = ()
    product: Product | None = None
    since: tuple[int, ...] = ()
    before: tuple[int, ...] = ()
    tables: str = ""
    absent_is_safe: bool = False
    no_receipt: str = ""

    def __post_init__(self) -> None:
        """Refuse a rule that calls no value, or every value, safe."""
        if bool(self.safe) == bool(self.unsafe):
            raise ValueError(f"{self.id}: either safe or unsafe values")
        if isinstance(self.fix, str) and "$" in self.fix:
            raise ValueError(f"{self.id}: a fix that differs by subject is a Fix")

    def is_safe(self, value: str) -> bool:
        """Return True if an ack is durable under *value*."""
        if self.unsafe:
            return value.lower() not in self.unsafe
        return value.lower() in self.safe

    def fix_on(self, words: Mapping[str, str]) -> str:
        """Return the remedy that makes a subject safe; words: as in Subject."""
        return self.fix if isinstance(self.fix, str) else self.fix.on(words)

    def harm_of(self, value: str | None) -> Harm:
        """Return the harm of an unsafe *value*; None if the value could not be read."""
        return self.harms.get((value or "").lower(), self.harm or Harm())

    @property
    def facts(self) -> tuple[str, ...]:
        """The names of the facts that the rule looks at."""
        return self.fact, *(name for name, _ in (*self.only, *self.unless))

    @property
    def applies_to(self) -> str:
        """The product and versions that the rule applies to, "" if to any."""
        since = ".".join(map(str, self.since))
        before = ".".join(map(str, self.before))
        parts = (
            self.product,
            since and f"{since} and later",
            before and f"before {before}",
        )
        return " ".join(filter(None, parts))
