"""Runs the control: a cycle with weak sessions, which must lose."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from dbcheck.base.errors import WitnessError
from dbcheck.cycle.cycle import finish_cycle, put_back, require_answered, turn
from dbcheck.cycle.host import end_canaries
from dbcheck.cycle.outcome import Outcome
from dbcheck.cycle.preflight.before_load import Started, preflight
from dbcheck.cycle.preflight.earlier_cycles import NOTHING_KNOWN, Known
from dbcheck.cycle.preflight.pending_runs import require_none_on_witness
from dbcheck.cycle.rig import Rig
from dbcheck.judge.item import Standing
from dbcheck.model.cut import Rung
from dbcheck.model.verdict import ControlFacts, Verdict
from dbcheck.ports.listener import Phase
from dbcheck.rows.workload import Workload

TRIES_MAX = 3


def run_controls(
    rig: Rig, workload: Workload, seed: int, known: Known = NOTHING_KNOWN
) -> Iterator[Outcome]:
    """Run a control, and again while chance may be why it shows nothing.

    Yield each outcome before the next control begins.  known: see preflight().

    PostgreSQL may by luck have written all but the last page of its log; so there are
    up to TRIES_MAX tries, but only one where a human has to cut.
    """
    tries = 1 if rig.site.attended else TRIES_MAX
    for number in range(tries):
        outcome = run_control(rig, workload, seed + number, known)
        known = known.with_outcome(outcome)
        rig.listener.phase(Phase.CONTROL, outcome.judgement.reasons[0])
        yield outcome
        if not _may_be_chance(outcome):
            break


def run_control(
    rig: Rig, workload: Workload, seed: int, known: Known = NOTHING_KNOWN
) -> Outcome:
    """Run one control on *rig*; return the outcome, whose verdict is a control's.

    What it changes on the server is undone also after an error or an interrupt; if this
    process dies before, a restart undoes it, or the next cycle or reconciliation on
    that server.
    """
    require_none_on_witness(rig)
    try:
        with turn(rig):
            started = preflight(rig, workload, seed, control=True, known=known)
            _weaken(rig, started)
        return require_answered(rig, finish_cycle(rig, started))
    finally:
        put_back(rig)


def facts_of(outcome: Outcome) -> ControlFacts:
    """Return what the cycles after a control need of it."""
    judgement = outcome.judgement
    assert judgement.control is not None
    return ControlFacts(
        outcome.manifest.run_id, judgement.control, judgement.reasons[0]
    )


def _weaken(rig: Rig, started: Started) -> None:
    """Weaken the server and note it in the log; end what the preflight began if not."""
    process = rig.lab.get("rung") == Rung.PROCESS.value
    try:
        text = rig.site.writer.engine.weaken_durability(process=process)
        started.log.note({"event": "relaxed", "how": text})
    except BaseException:
        with contextlib.suppress(WitnessError):  # the first error is the one to show
            started.log.close()
        if started.held is not None:
            started.held.close()
        end_canaries(rig.site, started.canaries, remove=True)
        raise
    rig.listener.phase(Phase.CONTROL, text)


def _may_be_chance(outcome: Outcome) -> bool:
    """Say whether another try could show more: no luck undoes a contradiction."""
    return outcome.verdict is Verdict.INCONCLUSIVE and not any(
        item.standing is Standing.CONTRADICTED for item in outcome.judgement.items
    )
