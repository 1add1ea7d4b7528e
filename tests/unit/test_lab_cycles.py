"""When a campaign in the lab ends by itself."""

from __future__ import annotations

from collections.abc import Generator
from types import SimpleNamespace
from typing import cast

import pytest

from dbcheck.campaign.judging import Outcome
from dbcheck.cli.lab_cycles import until_shown
from dbcheck.core.evidence import Verdict


def outcomes(letters: str, closed: list[bool]) -> Generator[Outcome, None, None]:
    """Yield a cycle for each letter: Pass, Fail, Inconclusive, Control."""
    verdicts = {"P": "PASS", "F": "FAIL", "I": "INCONCLUSIVE", "C": "PASS"}
    try:
        for letter in letters:
            cycle = SimpleNamespace(
                verdict=Verdict(verdicts[letter]),
                manifest=SimpleNamespace(control=letter == "C"),
            )
            yield cast(Outcome, cycle)
    finally:
        closed.append(True)


@pytest.mark.parametrize(
    ("letters", "cycles"),
    [
        pytest.param("PPPPP", 3, id="enough passes"),
        pytest.param("CPPPP", 4, id="a control is no cut"),
        pytest.param("PIPIP", 5, id="an inconclusive cycle does not count"),
        pytest.param("PFPPP", 2, id="the first loss ends it"),
        pytest.param("PI", 2, id="there are no more"),
    ],
)
def test_it_ends_at_the_first_loss_or_when_enough_is_shown(
    letters: str, cycles: int
) -> None:
    closed: list[bool] = []
    assert len(list(until_shown(outcomes(letters, closed), 3))) == cycles
    assert closed, "the lab has ended too"
