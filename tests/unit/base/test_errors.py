"""An expected failure as sentences."""

from __future__ import annotations

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import EngineError


@pytest.mark.parametrize(
    ("message", "begins"),
    [
        ("refused", "refused. Start it."),
        (
            "refused: Authentication failed.",
            "refused: Authentication failed. Start it.",
        ),
        ("refused; Is it running?", "refused; Is it running? Start it."),
    ],
)
def test_a_message_that_ends_as_a_sentence_gets_no_second_stop(
    message: str, begins: str
) -> None:
    error = EngineError(message, id=ErrorId.CONNECTION_FAILED, hint="Start it.")
    assert error.with_hint == begins
