"""Which clocks differ from the client's, as a person is told."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dbcheck.model.clocks import describe_clocks, measure_ahead
from dbcheck.model.cluster import ONLY_NODE
from tests.kit.nodes import having
from tests.kit.samples import MANIFEST

MINUTE_US = 60 * 10**6
TWO_HOURS_US = 120 * MINUTE_US


@pytest.mark.parametrize(
    ("clock_us", "ahead_us"),
    [(99, -1), (100, 0), (110, 0), (120, 0), (121, 1), (2**70, 2**53), (0, -100)],
)
def test_only_what_the_time_of_the_answer_does_not_explain_is_a_difference(
    clock_us: int, ahead_us: int
) -> None:
    assert measure_ahead(clock_us, 100, 120) == ahead_us
    # The client's clock was set back meanwhile.
    assert measure_ahead(clock_us, 120, 100) == ahead_us


@pytest.mark.parametrize("ahead_us", [0, MINUTE_US, -MINUTE_US])
def test_clocks_that_agree_to_the_minute_are_not_mentioned(ahead_us: int) -> None:
    alike = replace(having(MANIFEST, ahead_us=ahead_us), witness_ahead_us=ahead_us)
    assert describe_clocks(alike) == ""


@pytest.mark.parametrize(
    ("witness_us", "server_us", "said"),
    [
        (
            TWO_HOURS_US,
            TWO_HOURS_US,
            "the clock of the witness is 2 h ahead of the client's, the clock of the"
            " server is 2 h ahead of the client's.",
        ),
        (0, -2 * MINUTE_US, "the clock of the server is 2 min behind the client's."),
        (
            27 * 30 * TWO_HOURS_US,
            0,
            "the clock of the witness is 67 d 12 h ahead of the client's.",
        ),
    ],
)
def test_each_clock_that_differs_is_named(
    witness_us: int, server_us: int, said: str
) -> None:
    assert list(MANIFEST.nodes) == [ONLY_NODE]
    apart = replace(having(MANIFEST, ahead_us=server_us), witness_ahead_us=witness_us)
    text = describe_clocks(apart)
    assert text.startswith(said)
    assert "set the one that is wrong" in text
