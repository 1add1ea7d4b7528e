"""Trials: pytest -m fire --trials N; each can be repeated alone by its seed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from dbcheck.lab.lab import Lab, missing
from tests.fire.trial import Drawn, Trial
from tests.fire.witness_host import witness_host
from tests.kit.drive_mounts import own_mounts as own_mounts

pytestmark = [
    pytest.mark.fire,
    pytest.mark.root,
    pytest.mark.usefixtures("own_mounts"),
]


class Labs:
    """Labs that are kept for the next trial, as long as their drives are honest."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._stack = folder, ExitStack()
        self._honest: dict[str, Lab] = {}

    def start(self, drawn: Drawn, stack: ExitStack) -> Lab:
        """Return the lab of a trial, which ends with *stack* if its drive lies."""
        if lacking := missing(drawn.spec()):
            pytest.skip("; ".join(lacking))
        if drawn.lying:
            folder = self._folder / str(drawn)
            return stack.enter_context(Lab.start(drawn.spec(), folder))
        if drawn.engine not in self._honest:
            folder = self._folder / drawn.engine
            lab = self._stack.enter_context(Lab.start(drawn.spec(), folder))
            self._honest[drawn.engine] = lab
        return self._honest[drawn.engine]

    def close(self) -> None:
        """End them."""
        self._stack.close()


@pytest.fixture(scope="module")
def labs(own_mounts: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Labs]:
    made = Labs(tmp_path_factory.mktemp("fire"))
    yield made
    made.close()


def test_trial(drawn: Drawn, labs: Labs, tmp_path: Path) -> None:
    with ExitStack() as stack:
        lab = labs.start(drawn, stack)  # before a mount that it would take along
        rival = labs.start(drawn.rival(), stack) if drawn.fault.rival else None
        host = stack.enter_context(witness_host(tmp_path, drawn.fault.disk))
        trial = Trial(drawn, lab, host, tmp_path, rival=rival)
        stack.callback(trial.close)
        trial.strike()
        found = trial.end()
    again = f"python -m pytest -m fire --trials 1 --first-trial {drawn.seed}"
    assert not found, "\n".join([repr(drawn), *found, f"again: {again}"])
