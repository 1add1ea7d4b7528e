"""Moments that records and other programs write."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from dbcheck.base.text import parse_utc

NOON = datetime(2026, 1, 2, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-01-02T12:00:00+00:00", NOON),
        ("2026-01-02T12:00:00Z", NOON),
        ("2026-01-02T13:30:00+01:30", NOON),
        ("2026-01-02T12:00:00", NOON),  # whatever the zone of this machine is
        ("", None),
        ("yesterday", None),
    ],
)
def test_a_moment_is_read_in_utc(text: str, moment: datetime | None) -> None:
    found = parse_utc(text)
    assert found == moment
    assert found is None or found.tzinfo is UTC
