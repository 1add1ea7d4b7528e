"""Which settings decide whether an ack survives a power cut, and how each stands."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass

from dbcheck.audit import mysql, postgresql, storage
from dbcheck.audit.rule import Harm, Rule
from dbcheck.core.depth import Depth

RULES: Mapping[str, tuple[Rule, ...]] = {
    "postgresql": postgresql.RULES,
    "mysql": mysql.RULES,
}


class Standing(enum.Enum):
    """Where a setting stands under a rule."""

    SAFE = "safe"
    UNSAFE = "unsafe"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Finding:
    """A rule, and where a server stands under it.

    value: what the setting was, or None if it could not be read.
    """

    rule: Rule
    standing: Standing
    value: str | None

    @property
    def harm(self) -> Harm:
        """What the setting can do as it stands."""
        return self.rule.harm_of(self.value)

    def loses_at(self, depth: Depth) -> bool:
        """Say whether commits are lost under it by a cut of *depth*."""
        least = self.harm.depth
        return least is not None and least.rank <= depth.rank

    @property
    def hides(self) -> bool:
        """Say whether what is read while it is in effect proves nothing."""
        return self.standing is Standing.UNSAFE and self.harm.hides

    @property
    def sentence(self) -> str:
        """What it is and what to do about it, for a person."""
        return f"{self}: {self.rule.why}"

    def __str__(self) -> str:
        value = "unknown" if self.value is None else self.value
        return f"{self.rule.fact} = {value}"


def facts_of(family: str) -> tuple[str, ...]:
    """Return the server's settings that the rules of *family* judge, each once."""
    names = ((rule.fact, *(rule.unless or ())[:1]) for rule in RULES[family])
    return tuple(dict.fromkeys(str(name) for pair in names for name in pair))


def judge(rule: Rule, settings: Mapping[str, str]) -> Standing:
    """Return where *settings* stand under *rule*; an unread one is never SAFE."""
    if rule.unless is not None:
        name, values = rule.unless
        if name in settings and settings[name].lower() in values:
            return Standing.SAFE
    value = settings.get(rule.fact)
    if value is None:
        return Standing.SAFE if rule.absent_is_safe else Standing.UNKNOWN
    return Standing.SAFE if value.lower() in rule.safe else Standing.UNSAFE


def findings(family: str, settings: Mapping[str, str]) -> list[Finding]:
    """Return where *settings* stand under every rule of *family*."""
    return [
        Finding(rule, judge(rule, settings), settings.get(rule.fact))
        for rule in (*RULES[family], *storage.RULES)
    ]


def flagged(family: str, settings: Mapping[str, str]) -> list[Finding]:
    """Return the findings that are not SAFE, the UNSAFE ones first.

    family: as in ports.engine.Engine; settings: as in core.server.ServerFacts.
    """
    found = [f for f in findings(family, settings) if f.standing is not Standing.SAFE]
    return sorted(found, key=lambda finding: finding.standing is Standing.UNKNOWN)
