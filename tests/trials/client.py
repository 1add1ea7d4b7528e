"""dbcheck as people start it, with what its sessions receive written down.

python -m tests.trials.client ARGUMENTS, with in the environment:

    TRIAL_RECORD     folder for the records
    TRIAL_SILENCE_S  after so long without a word the witness is taken for dead
    TRIAL_CLOCK      a file that says by how many seconds the witness's clock is off
    TRIAL_PLANT      what is to be wrong: HASTY, CARELESS, BOUNDLESS, or nothing
    TRIAL_RUN_ID     the id of the run, if it is not to be drawn
    TRIAL_MEET       a folder where this client waits for another before it creates the
                     run on the witness, or nothing
"""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from tests.trials.agents import change_agent

if TYPE_CHECKING:
    from dbcheck.ports.engine import Engine
    from dbcheck.ports.witness import Witness, WitnessLog
    from dbcheck.witness.window import WindowLimits

BOUNDLESS = "a window without bounds"
MEET_S = 60.0


def record() -> None:
    """Have the command line make engines and witnesses that record."""
    from dbcheck.engines.registry import open_engine
    from dbcheck.runner import assemble
    from dbcheck.witness.url import open_witness
    from tests.trials.recorded import RecordedEngine, RecordedWitness

    def engine(*given: Any) -> Engine:
        return cast("Engine", RecordedEngine(open_engine(*given)))

    def witness(url: str, *, limits: WindowLimits, **options: Any) -> Witness:
        limits = replace(limits, silence_s=float(os.environ["TRIAL_SILENCE_S"]))
        inner = open_witness(url, limits=limits, volatile=True, **options)
        folder = Path(os.environ["TRIAL_RECORD"])
        return cast("Witness", RecordedWitness(inner, folder))

    vars(assemble).update(open_engine=engine, open_witness=witness)


def meet(folder: Path) -> None:
    """Return once two clients have come here."""
    (folder / str(os.getpid())).touch()
    deadline_s = time.monotonic() + MEET_S
    while len(list(folder.iterdir())) < 2:
        assert time.monotonic() < deadline_s, "no other client came"
        time.sleep(0.0002)


def meet_before_creating(folder: Path) -> None:
    """Have the run created at the moment at which another client creates it."""
    from dbcheck.cycle.preflight import before_load
    from tests.trials.recorded import RecordedWitness

    create = RecordedWitness.create

    def created(self: RecordedWitness, run_id: str, manifest: bytes) -> WitnessLog:
        self.facts()  # so that the channel is open
        meet(folder)
        return create(self, run_id, manifest)

    RecordedWitness.create = created  # type: ignore[method-assign]
    vars(before_load).update(new_run_id=lambda utc: os.environ["TRIAL_RUN_ID"])


def main() -> None:
    """Run dbcheck."""
    plant = os.environ.get("TRIAL_PLANT", "")
    change_agent(plant)
    record()
    if where := os.environ.get("TRIAL_MEET"):
        meet_before_creating(Path(where))
    from dbcheck import cli
    from dbcheck.witness.window import Window

    if plant == BOUNDLESS:
        Window._room = lambda self: 1 << 20  # type: ignore[method-assign]
    cli.main()


if __name__ == "__main__":
    main()
