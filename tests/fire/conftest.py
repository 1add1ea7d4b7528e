"""Each trial is a test of its own, named by its seed."""

from __future__ import annotations

import pytest

from tests.fire.trial import Drawn


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Draw as many trials as --trials says."""
    if "drawn" not in metafunc.fixturenames:
        return
    first = metafunc.config.getoption("first_trial")
    seeds = range(first, first + metafunc.config.getoption("trials"))
    metafunc.parametrize("drawn", [Drawn.of(seed) for seed in seeds], ids=str)
