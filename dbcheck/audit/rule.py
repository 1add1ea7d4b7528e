"""What a rule of the audit is."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Rule:
    """One setting that decides whether COMMIT survives a power cut.

    id:      stable name used in reports, e.g. "pg-fsync".
    fact:    name of the setting in ports.ServerFacts.
    safe:    the values, in lower case, under which an ack is durable.
    why:     one sentence an operator can act on.
    source:  page and version that the claim rests on.
    only_if: another setting and the values, in lower case, under which the rule
             applies at all; None if it always does.
    absent_is_safe: servers without that setting behave as if it were safe.
    """

    id: str
    fact: str
    safe: frozenset[str]
    why: str
    source: str
    only_if: tuple[str, frozenset[str]] | None = None
    absent_is_safe: bool = False
