"""Copies that were badly taken, and servers that are no copies: none may pass."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import EngineError
from dbcheck.cycle.copying import run_copied_cycle
from dbcheck.cycle.outcome import Outcome
from dbcheck.cycle.rig import Limits
from dbcheck.judge.item import ItemId, Status
from dbcheck.lab.held_port import HeldPort
from dbcheck.model.verdict import Verdict
from tests.kit import copy_methods
from tests.kit.copies import Copies, copies_of, require_kept, skip_without_program
from tests.kit.copy_methods import NOTHING, Method
from tests.kit.proxy import PASS_ON, Proxy
from tests.kit.refusals import refused
from tests.kit.rigs import ENGINES, SEED, quick

STREAM = copy_methods.base_backup("-X", "stream")
# A server that cannot start is not waited for longer.
SOON = Limits(return_s=5)


@pytest.fixture
def copies() -> Iterator[Copies]:
    with copies_of("postgresql", SOON) as made:
        yield made


def judge(copies: Copies, method: Method, target: str | None = None) -> Outcome:
    """Return the verdict on a copy by that method."""
    rig = copies.rig(copies.settings(method), target=target)
    return run_copied_cycle(rig, quick(), SEED)


def require_not_apart(outcome: Outcome) -> None:
    """Require that commits were found that no copy can have."""
    assert outcome.verdict is Verdict.INCONCLUSIVE, outcome.judgement
    items = {item.id: item.status for item in outcome.judgement.items}
    assert items[ItemId.COPY_APART] is Status.CONTRADICTED
    assert "it is the server itself, or follows it" in outcome.judgement.reasons[0]
    copy = outcome.result.copy
    assert copy is not None
    assert copy.after_kept


def require_not_started(copies: Copies, outcome: Outcome) -> None:
    """Require that a server that does not start on its copy is not cleared."""
    assert outcome.verdict is Verdict.INCONCLUSIVE, outcome.judgement
    assert not outcome.result.final
    assert "took no queries" in outcome.judgement.reasons[0]
    copies.remove_all()  # it is kept, as it may yet be made to start


def test_the_original_itself_is_no_copy(copies: Copies) -> None:
    with Proxy(int(copies.url.port or 0), lambda _: PASS_ON) as proxy:
        elsewhere = copies.url.set(port=proxy.port).render_as_string()
        nothing = Method("postgresql", NOTHING, NOTHING, NOTHING)
        require_not_apart(judge(copies, nothing, elsewhere))


@pytest.mark.wide
def test_a_copy_that_followed_the_original_is_no_copy(copies: Copies) -> None:
    require_not_apart(judge(copies, copy_methods.standby(promoted=True)))


@pytest.mark.wide
def test_a_copy_that_still_follows_the_original_is_not_read(copies: Copies) -> None:
    outcome = judge(copies, copy_methods.standby(promoted=False))
    require_not_started(copies, outcome)
    assert "the server is in recovery" in outcome.judgement.reasons[0]


def test_a_copy_from_before_the_run_is_found(copies: Copies) -> None:
    copies.run(STREAM.copy, "yesterday")
    outcome = judge(copies, copy_methods.restoring("yesterday", STREAM))
    assert outcome.verdict is Verdict.FAIL, outcome.judgement
    assert "may be an older one" in outcome.judgement.reasons[0]


@pytest.mark.wide
def test_the_copy_of_an_earlier_run_is_found(copies: Copies) -> None:
    kept = Method("postgresql", STREAM.copy, STREAM.restore, "")
    require_kept(judge(copies, kept))
    copies.run('end QUIT "$copy/postmaster.pid"\n', copies.find_run().path.name)
    earlier = copies.find_run().path.name
    outcome = judge(copies, copy_methods.restoring(earlier, STREAM))
    assert outcome.verdict is Verdict.FAIL, outcome.judgement
    assert "may be an older one" in outcome.judgement.reasons[0]
    copy = outcome.result.copy
    assert copy is not None
    assert copy.due_kept == 0


@pytest.mark.wide
def test_another_server_is_not_accused_of_having_no_copy(copies: Copies) -> None:
    """It is new: it has neither the tables of the run nor the name of the data."""
    loaded = copy_methods.dump_postgresql()
    unloaded = loaded.restore.partition("$as psql")[0]
    outcome = judge(copies, Method("postgresql", loaded.copy, unloaded, loaded.remove))
    assert outcome.verdict is Verdict.INCONCLUSIVE, outcome.judgement
    items = {item.id: item.status for item in outcome.judgement.items}
    assert items[ItemId.COPY_OF_SERVER] is Status.ABSENT


@pytest.mark.wide
def test_a_copy_whose_log_begins_too_late_is_found(copies: Copies) -> None:
    """A checkpoint came between: recovery does not repair what is older."""
    outcome = judge(copies, copy_methods.copy_log_last())
    assert outcome.verdict is Verdict.FAIL, outcome.judgement


@pytest.mark.wide
@pytest.mark.parametrize(
    "method",
    [
        pytest.param(copy_methods.base_backup("-X", "none"), id="no log"),
        pytest.param(copy_methods.copy_log_first(), id="log ends too early"),
    ],
)
def test_a_copy_without_its_log_is_not_restored(copies: Copies, method: Method) -> None:
    with refused(ErrorId.COPY_NOT_RESTORED, EngineError, naming="could not start"):
        judge(copies, method)
    copies.remove_all()


@pytest.mark.wide
def test_a_server_that_is_not_waited_for_is_not_cleared(copies: Copies) -> None:
    """As before, and the program says that the server was started."""
    no_log = copy_methods.base_backup("-X", "none")
    started = no_log.restore.replace("start -w", "start -W")
    method = Method("postgresql", no_log.copy, started, no_log.remove)
    require_not_started(copies, judge(copies, method))


@pytest.mark.wide
@pytest.mark.parametrize(
    "method",
    [
        pytest.param(copy_methods.copy_without_redo(), id="no redo log"),
        pytest.param(copy_methods.copy_table_first(), id="an older table"),
    ],
)
def test_files_of_mariadb_that_do_not_fit_are_not_cleared(method: Method) -> None:
    with copies_of("mariadb", SOON) as copies:
        outcome = judge(copies, method)
        if outcome.verdict is not Verdict.FAIL:  # recovery may have come further
            require_not_started(copies, outcome)


@pytest.mark.wide
@pytest.mark.parametrize(
    "method",
    [
        *(pytest.param(copy_methods.copy_files(name), id=name) for name in ENGINES),
        pytest.param(
            copy_methods.base_backup(
                *("-X", "stream"), finally_='rm "$copy/backup_label"\n'
            ),
            id="no backup_label",
        ),
    ],
)
def test_a_copy_that_may_be_torn_passes_only_if_it_is_whole(method: Method) -> None:
    """Chance decides whether files of several moments fit together."""
    with copies_of(method.engine, SOON) as copies:
        try:
            outcome = judge(copies, method)
        except EngineError as error:
            assert error.id is ErrorId.COPY_NOT_RESTORED
        else:
            if outcome.verdict is Verdict.PASS:
                require_kept(outcome)
            elif outcome.verdict is Verdict.INCONCLUSIVE:
                assert not outcome.result.final
        copies.remove_all()


@pytest.mark.wide
def test_the_backup_of_a_standby_that_fell_behind_is_found(copies: Copies) -> None:
    held = HeldPort()
    copies.run(copy_methods.begin_standby(held.number, detached=True), "standby")
    outcome = judge(copies, copy_methods.base_backup_of_standby(held.number))
    copies.remove_all()
    assert outcome.verdict is Verdict.FAIL, outcome.judgement
    assert "may be an older one" in outcome.judgement.reasons[0]


@pytest.mark.wide
def test_the_backup_of_a_standby_that_is_restored_as_one_is_not_read(
    copies: Copies,
) -> None:
    held = HeldPort()
    copies.run(copy_methods.begin_standby(held.number), "standby")
    method = copy_methods.base_backup_of_standby(held.number, follows=True)
    require_not_started(copies, judge(copies, method))


@pytest.mark.wide
def test_a_full_backup_without_its_incremental_one_is_not_cleared() -> None:
    """It is from before the run, when MariaDB's data had no name of dbcheck's yet."""
    skip_without_program("mariadb-backup")
    with copies_of("mariadb", SOON) as copies:
        copies.run(copy_methods.BEGIN_INCREMENTAL, "full")
        method = copy_methods.incremental_backup("full", applied=False)
        outcome = judge(copies, method)
        copies.remove_all()
    assert outcome.verdict is Verdict.INCONCLUSIVE, outcome.judgement
    items = {item.id: item.status for item in outcome.judgement.items}
    assert items[ItemId.COPY_OF_SERVER] is Status.ABSENT
