"""Each trial is a test of its own, named by its seed."""

from __future__ import annotations

import pytest

from tests.trials.trial import TrialSpec

WIDE_SEEDS = range(2, 5)  # so that make test makes the first trial alone


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Draw as many trials as --trials says."""
    if "spec" not in metafunc.fixturenames:
        return
    first = metafunc.config.getoption("first_trial")
    seeds = range(first, first + metafunc.config.getoption("trials"))
    specs = [
        pytest.param(
            TrialSpec.of(seed), marks=pytest.mark.wide if seed in WIDE_SEEDS else ()
        )
        for seed in seeds
    ]
    metafunc.parametrize("spec", specs, ids=str)
