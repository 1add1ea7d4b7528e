"""One line of the table of planted faults, and how it is held against a verdict."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from dbcheck.cycle.outcome import Outcome
from dbcheck.model.verdict import Verdict
from tests.kit.rigs import FAMILIES

PASS, FAIL, INCONCLUSIVE = Verdict.PASS, Verdict.FAIL, Verdict.INCONCLUSIVE
Words = str | Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault and what dbcheck must say of it.

    plant:   does it; what it takes and returns is the table's business.
    losses:  kind of loss -> rows; a number below 0 stands for "one or more".
    says:    words of one of the reasons, or of one of the items of evidence; by
             engine where they differ.
    engines: on which it can be planted.
    may_end_it: it may take what the server needs to start: that is a loss, too.
    """

    name: str
    plant: Callable[..., Any]
    verdict: Verdict
    losses: Mapping[str, int] = field(default_factory=dict)
    says: Words = ""
    engines: tuple[str, ...] = FAMILIES
    may_end_it: bool = False

    def require(self, outcome: Outcome, engine: str) -> None:
        """Fail unless *outcome* is what must be said."""
        told = (outcome.judgement, outcome.found and list(outcome.found.losses[:5]))
        assert outcome.verdict is self.verdict, told
        if self.may_end_it and outcome.after.failure:
            assert outcome.judgement.reasons[1].startswith("unrecoverable: "), told
            return
        counts = outcome.found.counts if outcome.found else {}
        assert counts.keys() == self.losses.keys(), told
        for kind, rows in self.losses.items():
            assert counts[kind] == rows or rows < 0, told
        assert _of(self.says, engine) in _words(outcome), told


def faults(table: Iterable[Fault]) -> pytest.MarkDecorator:
    """Run a test for each line of *table*."""
    lines = [pytest.param(fault, id=fault.name) for fault in table]
    return pytest.mark.parametrize("fault", lines)


def engines(fixture: str, *names: str) -> pytest.MarkDecorator:
    """Run a test on an engine of each family, or on those named; *fixture* is told."""
    return pytest.mark.parametrize(fixture, names or FAMILIES, indirect=True)


def _of(words: Words, engine: str) -> str:
    return words if isinstance(words, str) else words.get(engine, "")


def _words(outcome: Outcome) -> str:
    items = (f"{item.id.value} {item.reason}" for item in outcome.judgement.items)
    return "\n".join((*outcome.judgement.reasons, *items))
