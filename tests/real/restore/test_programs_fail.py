"""Programs of a copy that fail: what is then said, what is left, what can go on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import EngineError, UsageError
from dbcheck.cycle.copying import run_copied_cycle
from dbcheck.cycle.outcome import Outcome
from dbcheck.cycle.rig import Limits
from dbcheck.model.verdict import Verdict
from tests.kit import copy_methods
from tests.kit.copies import PROGRAMS_S, Copies, copies_of, require_kept
from tests.kit.copy_methods import NOTHING, Method
from tests.kit.refusals import refused
from tests.kit.rigs import SEED, quick
from tests.kit.waiting import wait_until

STREAM = copy_methods.base_backup("-X", "stream")
SESSIONS = """\
select count(*) from pg_stat_activity
where backend_type = 'client backend' and pid <> pg_backend_pid()
"""


@pytest.fixture
def copies() -> Iterator[Copies]:
    with copies_of("postgresql") as made:
        yield made


def copied(
    copies: Copies,
    method: Method,
    timeout_s: float = PROGRAMS_S,
    limits: Limits | None = None,
) -> Outcome:
    """Return the verdict on a copy by that method."""
    rig = copies.rig(copies.settings(method, timeout_s), limits)
    return run_copied_cycle(rig, quick(), SEED)


def require_load_ended(copies: Copies) -> None:
    """Require that no session is left, nor a part of a copy."""
    wait_until(lambda: copies.here.execute(SESSIONS) == [(0,)], "no session is left")
    copies.require_nothing_left()


@pytest.mark.wide
def test_a_copy_that_is_not_taken_ends_the_load(copies: Copies) -> None:
    part = 'mkdir "$copy"; touch "$copy/part"; exit 3\n'
    with refused(ErrorId.COPY_NOT_TAKEN, EngineError, naming="ended with 3"):
        copied(copies, replace(STREAM, copy=part))
    require_load_ended(copies)
    with refused(ErrorId.COPY_NOT_TAKEN, UsageError, naming="no record here of a copy"):
        copies.reconcile(copies.settings(STREAM))
    require_kept(copied(copies, STREAM))


@pytest.mark.wide
def test_a_copy_that_takes_too_long_ends_the_load(copies: Copies) -> None:
    slow = 'mkdir "$copy"; sleep 600\n'
    with refused(ErrorId.POWER_COMMAND_TOO_SLOW, EngineError, naming="than 2 s"):
        copied(copies, replace(STREAM, copy=slow), timeout_s=2)
    require_load_ended(copies)


@pytest.mark.wide
def test_a_copy_that_ends_with_its_lab_is_removed_and_promises_nothing(
    copies: Copies,
) -> None:
    rig = copies.rig(copies.settings(replace(STREAM, restore="exit 3\n")))
    assert rig.copying is not None
    brief = replace(rig, copying=replace(rig.copying, lasts=False))
    with refused(ErrorId.COPY_NOT_RESTORED, EngineError, naming="with 3") as caught:
        run_copied_cycle(brief, quick(), SEED)
    assert "reconcile" not in caught.value.hint
    require_load_ended(copies)


@pytest.mark.wide
def test_a_load_that_grows_too_large_ends_with_its_copy(copies: Copies) -> None:
    slow = 'mkdir "$copy"; sleep 600\n'
    rig = copies.rig(copies.settings(replace(STREAM, copy=slow)))
    with refused(ErrorId.COPY_ROWS_EXCEEDED, EngineError, naming="--rows-max is 500"):
        run_copied_cycle(rig, quick(), SEED, rows_max=500)
    require_load_ended(copies)
    (rows,) = copies.here.execute(f"select count(*) from {copies.here.table}")
    assert rows[0] < 5_000
    require_kept(
        run_copied_cycle(
            copies.rig(copies.settings(STREAM)), quick(), SEED, rows_max=100_000
        )
    )


@pytest.mark.wide
def test_a_server_that_dies_while_it_is_copied_is_not_judged(copies: Copies) -> None:
    deadly = f'mkdir "$copy"; kill -KILL {copies.pid}; sleep 600\n'
    with refused(ErrorId.ALL_SESSIONS_ENDED, EngineError, naming="before the copy"):
        copied(copies, replace(STREAM, copy=deadly))
    copies.require_nothing_left()
    assert copies.find_run().load() is not None
    assert not copies.find_run().was_read()


def test_a_copy_that_is_not_restored_is_judged_once_it_is(copies: Copies) -> None:
    failing = replace(STREAM, restore="echo no room left >&2; exit 5\n")
    with refused(ErrorId.COPY_NOT_RESTORED, EngineError, naming="no room left"):
        copied(copies, failing)
    assert copies.copies == [copies.find_run().path.name], "it is needed yet"
    require_kept(copies.reconcile(copies.settings(STREAM)))
    copies.require_nothing_left()


@pytest.mark.wide
def test_a_copy_without_a_server_is_judged_once_it_has_one(copies: Copies) -> None:
    outcome = copied(
        copies, replace(STREAM, restore=NOTHING), limits=Limits(return_s=3)
    )
    assert outcome.verdict is Verdict.INCONCLUSIVE, outcome.judgement
    assert not outcome.result.final
    assert "took no queries within 3 s" in outcome.judgement.reasons[0]
    assert "stays until its rows were read" in copies.here.said.text
    require_kept(copies.reconcile(copies.settings(STREAM)))


@pytest.mark.wide
def test_a_server_that_is_left_running_is_restored_anew(copies: Copies) -> None:
    """The first restore started it, and then failed."""
    late = replace(STREAM, restore=STREAM.restore + "exit 6\n")
    with refused(ErrorId.COPY_NOT_RESTORED, EngineError, naming="ended with 6"):
        copied(copies, late)
    assert copies.is_listening()
    require_kept(copies.reconcile(copies.settings(STREAM)))


@pytest.mark.wide
def test_a_copy_that_is_not_removed_is_judged_all_the_same(copies: Copies) -> None:
    keeping = replace(STREAM, remove="echo not allowed >&2; exit 4\n")
    require_kept(copied(copies, keeping))
    said = copies.here.said.text
    assert "NOT REMOVED: " in said
    assert "not allowed" in said
    with pytest.raises(AssertionError, match=copies.find_run().path.name):
        copies.require_nothing_left()
    copies.remove_all()


@pytest.mark.wide
def test_a_workload_that_changes_rows_is_not_begun(copies: Copies) -> None:
    rig = copies.rig(copies.settings(STREAM))
    with refused(ErrorId.WORKLOAD_NOT_FOR_COPY, UsageError, naming="mixed"):
        run_copied_cycle(rig, quick("mixed"), SEED)
    assert not rig.runs.exists()
