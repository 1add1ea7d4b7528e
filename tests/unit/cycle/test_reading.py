"""A reading that breaks off, and the next one: what the first saw is not forgotten."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import ConnectionLost, EngineError, OtherServer, UsageError
from dbcheck.config.workload_file import load
from dbcheck.cycle.recovery.after_cut import read_survivors
from dbcheck.cycle.recovery.reading import Reading, store_nothing_read
from dbcheck.cycle.rig import Limits, Rig
from dbcheck.model.cluster import ONLY_NODE, Promise, SiteKind
from dbcheck.model.records import AfterRecord, NodeAfter, PreparedRecord
from dbcheck.model.server import Refill, ServerFacts
from dbcheck.rows.acks import Row
from dbcheck.rows.prepared import Decisions, LeftFate, Name
from dbcheck.rows.schedule import Schedule
from dbcheck.rows.survivors import RowBatch
from dbcheck.rows.table import LEDGER, TableFacts, TableSpec
from dbcheck.runs.folder import RunFolder
from tests.kit.bare_engine import BareEngine
from tests.kit.nodes import after_of, site_of
from tests.kit.partial_rig import RecordingListener
from tests.kit.refusals import refused
from tests.kit.samples import FACTS, MANIFEST

MANIFEST_2PC = replace(
    MANIFEST,
    workload=load("two-phase"),
    tables=dict.fromkeys(("ledger", "item"), TableFacts({}, 0)),
)
LEFT = Name(MANIFEST.epoch, 1, 5)
MEMBER = Refill("is a member of a group", "Cut again")
CLONED = Refill("was cloned", "Cut again", replaces=True)
LOG = b"acks"
BACK = replace(FACTS, started_us=FACTS.started_us + 1)  # once it was cut
ROW = Schedule(MANIFEST.seed, MANIFEST.epoch, (16,)).row(1, 1)._replace(row_id=1)


def broken() -> ConnectionLost:
    return ConnectionLost("it broke", 0, id=ErrorId.CONNECTION_LOST)


REFUSED = EngineError("denied", id=ErrorId.STATEMENT_FAILED)


@dataclass
class Server(BareEngine):
    """A server with one prepared transaction.

    refills, counted: what it shows at one look after the other, the last for good.
    ends: by the name of a method, the errors with which its next calls end.
    """

    refills: list[Refill | None] = field(default_factory=lambda: [None])
    counted: list[Decisions] = field(default_factory=lambda: [Decisions(0, 0)])
    deletes: int = 0
    ends: dict[str, list[BaseException]] = field(default_factory=dict)
    left: set[Name] = field(default_factory=lambda: {LEFT})
    is_up: bool = True
    crashed: bool = True
    shown: ServerFacts = BACK
    rows: list[Row] = field(default_factory=lambda: [ROW])
    target = MANIFEST.writer.target

    def _end(self, name: str) -> None:
        if self.ends.get(name):
            raise self.ends[name].pop(0)

    def ready(self) -> str | None:
        return None if self.is_up else "it takes no connections"

    def facts(self) -> ServerFacts:
        return self.shown

    def places(self, tables: Sequence[TableSpec]) -> tuple[()]:
        return ()

    def refill(self, tables: object, since_us: int, **_: object) -> Refill | None:
        return self.refills.pop(0) if len(self.refills) > 1 else self.refills[0]

    def plant_canary(self, epoch: int, **_: object) -> None:
        raise AssertionError("only the preflight plants one")

    def canary(self, epoch: int, **_: object) -> bool:
        return not self.crashed

    def decisions(self, **_: object) -> Decisions:
        self._end("decisions")
        return self.counted.pop(0) if len(self.counted) > 1 else self.counted[0]

    def deleted(self, table: TableSpec, **_: object) -> int:
        self._end("deleted")
        return self.deletes

    def require_two_phase(self) -> None:
        raise AssertionError("only the preflight asks that")

    def prepared(self, **_: object) -> tuple[str, ...]:
        return tuple(map(str, self.left))

    def decide(self, name: str, *, commit: bool, **_: object) -> None:
        self.left.clear()
        self._end("decide")

    def survivors(
        self, tables: Sequence[TableSpec], **_: object
    ) -> Iterator[tuple[TableSpec, RowBatch]]:
        self._end("survivors")
        if LEDGER in tables:
            yield LEDGER, RowBatch.of(self.rows)


@dataclass
class Case:
    """A run that was cut, and what its witness holds."""

    run: RunFolder
    log: bytes = LOG

    def rig(self, server: Server, return_s: float = 0.0) -> Rig:
        nothing: Any = None
        return Rig(
            site_of(server, SimpleNamespace(failure=lambda: None)),
            SimpleNamespace(read=lambda run_id, number: iter([self.log])),
            nothing,
            RecordingListener(),
            self.run.path.parent,
            limits=Limits(return_s=return_s),
        )

    def reading(self, server: Server) -> Reading:
        return Reading(self.rig(server), self.run, self.run.manifest())

    def read(self, server: Server) -> Reading:
        """Read, and store what was found."""
        reading = self.reading(server)
        reading.read(server.facts())
        self.run.write_after(reading.record({ONLY_NODE: NodeAfter(None)}, ONLY_NODE))
        return reading


@pytest.fixture
def case(tmp_path: Path) -> Case:
    run = RunFolder.create(tmp_path, MANIFEST_2PC)
    run.write_acks(0, [LOG])
    return Case(run)


def test_a_clone_counts_in_whichever_look_of_whichever_reading_it_shows(
    case: Case,
) -> None:
    assert case.read(Server(refills=[MEMBER])).refill == MEMBER
    assert case.read(Server(refills=[MEMBER, CLONED])).refill == CLONED
    assert case.read(Server(refills=[MEMBER])).refill == CLONED


Seen = tuple[Refill | None, Decisions | None, bool | None, int | None]
SEEN: Seen = (MEMBER, Decisions(0, 3), False, 2)


def seen_by(reading: Reading) -> Seen:
    return reading.refill, reading.decisions, reading.canary, reading.deleted


def seen_of(case: Case) -> Seen:
    """Return the same as the run stores it."""
    after = case.run.after()
    return after.refill, after.decisions, after.canary, after.deleted


def that_saw(**ends: list[BaseException]) -> Server:
    return Server(refills=[MEMBER], counted=[Decisions(0, 3)], deletes=2, ends=ends)


def given_up(case: Case) -> None:
    """The connection breaks each time, and no reading ends."""
    reading = case.read(that_saw(survivors=[broken(), broken()]))
    assert "2 times" in reading.unanswered


def interrupted(case: Case) -> None:
    """The client ends as it decides what is prepared."""
    reading = case.reading(that_saw(decide=[KeyboardInterrupt()]))
    with pytest.raises(KeyboardInterrupt):
        reading.read(BACK)
    assert not (case.run.path / "after.json").exists()


def gone(case: Case) -> None:
    """The server ends as it is read, and does not come back."""
    server = that_saw(survivors=[broken()])

    def ready() -> str | None:
        return None if server.ends["survivors"] else "it takes no connections"

    server.ready = ready  # type: ignore[method-assign]
    after = read_survivors(case.rig(server), case.run, case.run.manifest())
    assert "it takes no connections" in after.unanswered
    assert seen_of(case) == SEEN


@pytest.mark.parametrize("ends", [given_up, interrupted, gone])
def test_what_a_server_showed_stands_after_it_started_anew(
    case: Case, ends: Callable[[Case], None]
) -> None:
    ends(case)
    started_anew = Server(crashed=False, left=set())
    away = replace(started_anew, is_up=False)
    assert seen_by(case.read(started_anew)) == SEEN
    case.run.forget_survivors()
    ends(case)
    read_survivors(case.rig(away), case.run, case.run.manifest())
    assert seen_of(case) == SEEN


def test_the_server_that_restarts_as_it_is_read_counts_no_less(case: Case) -> None:
    counted = [Decisions(0, 3), Decisions(1, 0)]
    server = Server(counted=counted, ends={"survivors": [broken()]})
    assert case.read(server).decisions == Decisions(1, 3)


@pytest.mark.parametrize(
    ("error", "unanswered", "counted"),
    [
        (broken(), False, Decisions(0, 3)),
        (
            OtherServer("another", id=ErrorId.DIFFERENT_SERVERS_ANSWER),
            True,
            None,
        ),
        (REFUSED, False, None),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_count_that_a_broken_connection_hid_is_asked_for_again(
    case: Case, error: EngineError, unanswered: bool, counted: Decisions | None
) -> None:
    reading = case.read(that_saw(decisions=[error]))
    assert bool(reading.unanswered) is unanswered
    assert reading.decisions == counted


@pytest.mark.parametrize(
    ("errors", "counted"),
    [([REFUSED, broken()], 2), ([REFUSED, REFUSED], None)],
    ids=["lost", "refused"],
)
def test_a_count_of_deleted_rows_that_was_refused_is_unknown(
    case: Case, errors: list[BaseException], counted: int | None
) -> None:
    assert case.read(that_saw(deleted=errors)).deleted == counted


def test_a_canary_that_only_a_later_crash_removed_was_there(case: Case) -> None:
    server = Server(crashed=False, ends={"survivors": [broken(), broken()]})
    assert case.read(server).canary is True
    assert case.read(Server(crashed=True)).canary is True


def test_a_canary_that_was_there_before_the_cut_shows_nothing_of_it(case: Case) -> None:
    ends: dict[str, list[BaseException]] = {"survivors": [broken(), broken()]}
    assert case.read(Server(crashed=False, shown=FACTS, ends=ends)).canary is None
    assert case.read(Server(crashed=True)).canary is False


def test_nothing_that_a_load_prepared_is_decided_while_it_runs(case: Case) -> None:
    """And the rows that an earlier record names are still those in the folder."""
    case.run.write_after(
        after_of(None, survivors=store_nothing_read(case.run, MANIFEST_2PC))
    )
    server, case.log = Server(), LOG + b"more"
    with refused(ErrorId.RUN_STILL_UNDER_LOAD, UsageError) as caught:
        case.reading(server).read(BACK)
    assert caught.value.id is ErrorId.RUN_STILL_UNDER_LOAD
    assert server.left == {LEFT}
    assert case.run.prepared() is None
    rows = case.run.after().stored_rows(LEDGER.name)
    assert not list(case.run.survivors(LEDGER.name, rows))


def test_what_was_read_before_the_cut_does_not_hide_what_the_cut_lost(
    case: Case,
) -> None:
    """As by somebody who then sees that the power is still on."""
    server = that_saw(decide=[KeyboardInterrupt()])
    server.shown = FACTS
    reading = case.reading(server)
    with contextlib.suppress(KeyboardInterrupt):
        reading.read(FACTS)
    assert server.left == {LEFT}
    assert case.run.prepared() is None
    assert [one.fate for one in reading.left_over] == [LeftFate.UNDECIDED]
    assert reading.decisions is None
    later = case.read(Server(rows=[]))
    assert later.stored[LEDGER.name].rows == 0
    assert [one.fate for one in later.left_over] == [LeftFate.ABSENT]


def test_rows_that_are_older_than_the_acks_are_not_taken(case: Case) -> None:
    interrupted(case)
    stored = case.run.prepared()
    assert stored is not None
    assert (stored.log_bytes, stored.names) == ((len(LOG),), (LEFT,))
    case.log = LOG + b"more"
    case.run.write_acks(0, [case.log])
    assert case.run.prepared() is None
    later = Name(MANIFEST.epoch, 2, 7)
    reading = case.read(Server(left={later}))
    assert [(one.session, one.seq) for one in reading.left_over] == [(2, 7)]
    assert (reading.refill, reading.decisions) == (None, Decisions(0, 0))


def test_what_another_node_showed_is_not_of_this_one(case: Case) -> None:
    nodes = {**MANIFEST.nodes, "standby": MANIFEST.writer}
    manifest = replace(
        MANIFEST_2PC,
        run_id=f"{MANIFEST.run_id[:-1]}0",
        site=SiteKind.STREAMING,
        promise=Promise.WRITER,
        nodes=nodes,
    )
    case = Case(RunFolder.create(case.run.path.parent, manifest))
    seen: dict[str, Any] = {
        "canary": False,
        "decisions": Decisions(0, 3),
        "refill": MEMBER,
        "deleted": 2,
    }
    case.run.write_prepared(PreparedRecord((LEFT,), "standby", {}, (0,), **seen))
    found = dict.fromkeys(nodes, NodeAfter(None))
    case.run.write_after(AfterRecord(found, "standby", "", {}, **seen))
    server = Server(crashed=False)
    reading = case.reading(server)
    reading.read(BACK)
    assert "Make standby the primary again. Then run" in reading.unanswered
    assert server.left == {LEFT}
    assert seen_by(reading) == (None, None, True, 0)
