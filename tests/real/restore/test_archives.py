"""Archives of a server that is lost: whole ones pass, and none that lacks commits.

The server's power is cut under load and stays off.  What was shipped by then is
restored elsewhere, and judged by how old a commit may be that is lost.
"""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import EngineError
from dbcheck.base.points import Point
from dbcheck.cycle.cycle import run_cycle
from dbcheck.cycle.outcome import Outcome
from dbcheck.judge.item import ItemId, Status
from dbcheck.model.verdict import Verdict
from tests.kit import archive_methods as methods
from tests.kit.archives import (
    Archives,
    Shipping,
    archives_of,
    require_found,
    require_passed,
    status_of,
)
from tests.kit.copies import skip_without_program
from tests.kit.refusals import refused
from tests.kit.rigs import SEED, quick

RPO_S = 3.0  # of an archive whose server ships each second
# Long enough that commits came before and after what a bad archive loses.
LONG_S = (3.0, 3.5)
NEVER_S = (120.0, 120.5)  # the server dies long before


def lose(
    shipping: Shipping, rpo_s: float, *, rate: float = 0.0, long: bool = False
) -> Outcome:
    """Return the verdict on an archive whose server is lost."""
    workload = replace(quick(), rate=rate)
    if long:
        workload = replace(workload, cut_after_s=LONG_S)
    with archives_of(shipping) as archives:
        return run_cycle(archives.archive_rig(rpo_s), workload, SEED)


def test_an_archive_has_every_commit_that_is_older_than_its_objective() -> None:
    require_passed(lose(methods.postgresql_archive(), RPO_S))


def test_a_synchronous_receiver_has_every_commit() -> None:
    outcome = lose(methods.postgresql_receiver(), 0)
    require_passed(outcome)
    assert status_of(outcome, ItemId.RECEIVER) is Status.PRESENT


@pytest.mark.wide
def test_the_binary_log_of_mariadb_has_every_commit_that_is_older() -> None:
    for program in ("mariadb-backup", "mariadb-binlog"):
        skip_without_program(program)
    require_passed(lose(methods.mariadb_binlog(), RPO_S))


@pytest.mark.wide
def test_a_semi_synchronous_replica_has_every_commit() -> None:
    skip_without_program("mariadb-backup")
    outcome = lose(methods.mariadb_replica(), 0)
    require_passed(outcome)
    assert status_of(outcome, ItemId.RECEIVER) is Status.PRESENT


@pytest.mark.wide
def test_a_replica_that_is_promoted_before_it_applied_its_log_is_found() -> None:
    skip_without_program("mariadb-backup")
    require_found(lose(methods.mariadb_replica(applied=False), 0))


@pytest.mark.wide
def test_a_replica_that_no_commit_waits_for_is_not_cleared() -> None:
    skip_without_program("mariadb-backup")
    outcome = lose(methods.mariadb_replica(semi_sync=False), 0)
    assert outcome.verdict is not Verdict.PASS, outcome.judgement
    assert status_of(outcome, ItemId.RECEIVER) is Status.ABSENT


@pytest.mark.wide
@pytest.mark.parametrize(
    ("shipping", "rpo_s"),
    [
        pytest.param(methods.archive_without_segment(), 2, id="a segment is missing"),
        pytest.param(methods.archive_that_stops(), 2, id="it says that it shipped"),
        pytest.param(methods.archive_not_restored(), 2, id="the base backup alone"),
        pytest.param(
            methods.archive_not_readable(noticed=False), 2, id="it cannot be read"
        ),
        pytest.param(methods.receiver_without_partial(), 0, id="without .partial"),
        pytest.param(methods.receiver_that_stops(), 0, id="a receiver stops"),
        pytest.param(methods.receiver_that_lies(), 0, id="a receiver lies"),
    ],
)
def test_an_archive_that_lacks_commits_is_found(
    shipping: Shipping, rpo_s: float
) -> None:
    require_found(lose(shipping, rpo_s, long=True))


@pytest.mark.wide
def test_a_binary_log_that_was_not_received_to_its_end_is_found() -> None:
    for program in ("mariadb-backup", "mariadb-binlog"):
        skip_without_program(program)
    require_found(lose(methods.binlog_that_stops(), 2, long=True))


@pytest.mark.wide
def test_a_segment_that_takes_long_to_fill_is_found_at_a_low_rate() -> None:
    """Under a full load segments are filled, and shipped, long before the timeout."""
    require_found(lose(methods.postgresql_archive(timeout_s=60), 1, rate=20, long=True))


@pytest.mark.wide
def test_a_short_timeout_ships_in_time_also_at_a_low_rate() -> None:
    require_passed(lose(methods.postgresql_archive(), RPO_S, rate=20))


@pytest.mark.wide
def test_a_receiver_that_no_commit_waits_for_is_not_cleared() -> None:
    """It may have had every commit, by luck."""
    outcome = lose(methods.postgresql_receiver(awaited=False), 0)
    assert outcome.verdict is not Verdict.PASS, outcome.judgement
    assert status_of(outcome, ItemId.RECEIVER) is Status.ABSENT


@pytest.mark.wide
def test_an_archive_that_cannot_be_read_is_not_taken_for_its_end() -> None:
    """The program of the restore notices it."""
    with archives_of(methods.archive_not_readable(noticed=True)) as archives:
        with refused(ErrorId.COPY_NOT_RESTORED, EngineError, naming="could not start"):
            run_cycle(archives.archive_rig(RPO_S), quick(), SEED)
        archives.remove_all()


@pytest.mark.wide
def test_a_server_that_dies_before_its_cut_is_not_judged() -> None:
    """It may start again by itself, and ship what it had not."""
    with archives_of(methods.postgresql_archive()) as archives:
        awaited = 'python -m tests.kit.receivers await "$url" $from $ledger\n'
        kill = f"{awaited}kill -KILL {archives.pid}\n"
        dying = threading.Thread(target=archives.run, args=(kill,))
        rig = replace(archives.archive_rig(RPO_S), before_load=dying.start)
        why = "before its power was cut"
        with refused(ErrorId.ALL_SESSIONS_ENDED, EngineError, naming=why):
            run_cycle(rig, replace(quick(), cut_after_s=NEVER_S), SEED)
        dying.join()


class _PowerRestored:
    """Restores nothing, but the power of the lost server itself."""

    def __init__(self, archives: Archives) -> None:
        self._archives = archives

    def take(self, *_: object) -> None:
        """Take no copy."""

    def restore(self, _: str, point: Point | None = None) -> None:
        """Restore the power."""
        self._archives.here.rig.site.writer.power.restore()

    def remove(self, _: str) -> None:
        """Remove nothing."""

    def require_programs(self) -> None:
        """Need none."""


@pytest.mark.wide
def test_the_lost_server_itself_is_no_archive() -> None:
    with archives_of(methods.postgresql_archive()) as archives:
        rig = archives.archive_rig(RPO_S)
        assert rig.copying is not None
        itself = archives.rig(
            archives.archive_settings(), target=archives.here.lab.target_url
        )
        assert itself.copying is not None
        copying = replace(
            itself.copying, programs=_PowerRestored(archives), rpo_s=RPO_S
        )
        outcome = run_cycle(replace(rig, copying=copying), quick(), SEED)
    assert outcome.verdict is Verdict.INCONCLUSIVE, outcome.judgement
    assert status_of(outcome, ItemId.STAYED_OFF) is Status.CONTRADICTED
