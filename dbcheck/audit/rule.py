"""A rule of the audit: one setting, its safe values, and what others can do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from dbcheck.core.depth import Depth


@dataclass(frozen=True, slots=True)
class Harm:
    """What an unsafe value of a setting can do.

    depth:      the shallowest cut that loses commits under it; None if no cut does so
                by this setting alone.
    everything: it can lose all rows, also those that were committed long before.
    hides:      what is read while it is in effect proves nothing: rows that are lost
                may come back from other servers, or rows that are present be left out.
    end:        it loses only what was committed last: what survives is a clean
                beginning of what was committed.
    tears:      it loses commits only where the storage lets a cut tear a page in two;
                where pages are written whole or not at all, it loses nothing.
    """

    depth: Depth | None = None
    everything: bool = False
    hides: bool = False
    tears: bool = False
    end: bool = False


@dataclass(frozen=True, slots=True)
class Rule:
    """One setting that decides whether COMMIT survives a power cut.

    id:      stable name used in reports, e.g. "pg-fsync".
    fact:    name of the setting in core.server.ServerFacts.
    safe:    the values, in lower case, under which an ack is durable.
    why:     one sentence an operator can act on.
    source:  page and version that the claim rests on.
    harm:    what its other values can do; harms: for some of them, in lower case.
    unless:  another setting and the values, in lower case, under which the rule does
             not apply; None if it always does.
    absent_is_safe: servers without that setting behave as if it were safe.
    """

    id: str
    fact: str
    safe: frozenset[str]
    why: str
    source: str
    harm: Harm
    harms: Mapping[str, Harm] = field(default_factory=dict)
    unless: tuple[str, frozenset[str]] | None = None
    absent_is_safe: bool = False

    def harm_of(self, value: str | None) -> Harm:
        """Return what an unsafe *value* can do; None: it could not be read."""
        return self.harms.get((value or "").lower(), self.harm)
