"""Each trial is a test of its own, named by its seed."""

from __future__ import annotations

import pytest

from tests.trials.trial import TrialSpec


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Draw as many trials as --trials says."""
    if "spec" not in metafunc.fixturenames:
        return
    first = metafunc.config.getoption("first_trial")
    seeds = range(first, first + metafunc.config.getoption("trials"))
    metafunc.parametrize("spec", [TrialSpec.of(seed) for seed in seeds], ids=str)
