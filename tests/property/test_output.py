"""Whatever text is in a report, a terminal obeys none of it."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.kit.poisoned_reports import REPORTS, shown
from tests.kit.reports import is_harmless


@pytest.mark.parametrize("name", REPORTS)
@settings(max_examples=15, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(text=st.text(max_size=8), width=st.integers(8, 120))
def test_no_report_holds_a_control_character(name: str, text: str, width: int) -> None:
    assert is_harmless(shown(REPORTS[name](text), width=width))
