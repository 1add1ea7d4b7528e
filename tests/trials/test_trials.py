"""Trials: pytest -m trials --trials N; each can be repeated alone by its seed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from dbcheck.lab.lab import Lab, list_missing
from tests.kit.drive_mounts import own_mounts as own_mounts
from tests.trials.trial import Trial, TrialSpec
from tests.trials.witness_host import witness_host

pytestmark = [
    pytest.mark.trials,
    pytest.mark.root,
    pytest.mark.usefixtures("own_mounts"),
]


class Labs:
    """Labs that are kept for the next trial, as long as their drives are honest."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._stack = folder, ExitStack()
        self._honest: dict[str, Lab] = {}

    def start(self, spec: TrialSpec, stack: ExitStack) -> Lab:
        """Return the lab of a trial, which ends with *stack* if its drive lies."""
        if lacking := list_missing(spec.lab_spec()):
            pytest.skip("; ".join(lacking))
        if spec.lying:
            folder = self._folder / str(spec)
            return stack.enter_context(Lab.start(spec.lab_spec(), folder))
        if spec.engine not in self._honest:
            folder = self._folder / spec.engine
            lab = self._stack.enter_context(Lab.start(spec.lab_spec(), folder))
            self._honest[spec.engine] = lab
        return self._honest[spec.engine]

    def close(self) -> None:
        """End them."""
        self._stack.close()


@pytest.fixture(scope="module")
def labs(own_mounts: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Labs]:
    made = Labs(tmp_path_factory.mktemp("trials"))
    yield made
    made.close()


def test_trial(spec: TrialSpec, labs: Labs, tmp_path: Path) -> None:
    with ExitStack() as stack:
        lab = labs.start(spec, stack)  # before a mount that it would take along
        rival = labs.start(spec.rival(), stack) if spec.fault.rival else None
        host = stack.enter_context(witness_host(tmp_path, spec.fault.disk))
        trial = Trial(spec, lab, host, tmp_path, rival=rival)
        stack.callback(trial.close)
        trial.strike()
        found = trial.end()
    again = f"python -m pytest -m trials --trials 1 --first-trial {spec.seed}"
    assert not found, "\n".join([repr(spec), *found, f"again: {again}"])
