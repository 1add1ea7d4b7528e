"""Asks an engine for what it may be unable to answer.

Each function defines what a missing ability results in: "not observable", never a
finding about the server.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import NoCanary, UsageError, unless_refused
from dbcheck.model.audited import OtherSettings
from dbcheck.model.depth import HeldCanary
from dbcheck.model.server import Refill, ServerFacts, TableCheck
from dbcheck.ports import abilities
from dbcheck.ports.engine import Engine
from dbcheck.rows.chores import ChoreKind
from dbcheck.rows.conditions import ConditionCheck
from dbcheck.rows.fill import Fill
from dbcheck.rows.plans.registry import payload_bytes_max, statements_of
from dbcheck.rows.prepared import Decisions
from dbcheck.rows.table import Definition, TableSpec
from dbcheck.rows.workload import Workload


def checkpoint(engine: Engine) -> str:
    """Request a checkpoint; return "" once it is made, or why there was none."""
    if not abilities.makes_checkpoints(engine):
        return "this server has no statement that requests a checkpoint"
    return engine.checkpoint() or ""


def plant_canary(
    engine: Engine, epoch: int, server: ServerFacts | None = None
) -> HeldCanary | None:
    """Plant the crash canary; raise NoCanary if there is none, see CrashCanary."""
    if not abilities.has_crash_canary(engine):
        raise NoCanary(
            "no crash canary: this kind of server has none",
            id=ErrorId.CANARY_NOT_POSSIBLE,
        )
    return engine.plant_canary(epoch, server=server)


def canary(
    engine: Engine, epoch: int, server: ServerFacts | None = None
) -> bool | None:
    """Return whether the crash canary is present, None if unknown."""
    if not abilities.has_crash_canary(engine):
        return None
    return engine.canary(epoch, server=server)


def logged(
    engine: Engine, since_us: int, server: ServerFacts | None = None
) -> str | None:
    """Return what the server logged since then, None if SQL does not show it."""
    if not abilities.shows_log(engine):
        return None
    return engine.logged(since_us, server=server)


def names_in_log(engine: Engine, tables: Sequence[TableSpec]) -> tuple[str, ...]:
    """Return how the server's log names the tables, () if that is unknown."""
    if not abilities.knows_names_in_log(engine):
        return ()
    return engine.names_in_log(tables)


def table_identity(
    engine: Engine, table: TableSpec, server: ServerFacts | None = None
) -> str:
    """Return the identifier of the table itself, "" if it is unknown."""
    if not abilities.identifies_tables(engine):
        return ""
    return engine.table_identity(table, server=server)


def table_definition(
    engine: Engine, table: TableSpec, server: ServerFacts | None = None
) -> Definition:
    """Return how the table is defined, Definition() if that is unknown."""
    if not abilities.identifies_tables(engine):
        return Definition()
    return engine.table_definition(table, server=server)


def deleted(
    engine: Engine, table: TableSpec, server: ServerFacts | None = None
) -> int | None:
    """Return the number of rows deleted from *table* since the server started.

    None if the server counts none, or does not show the count to this account.
    Raise ConnectionLost, OtherServer: the next connection may get an answer.
    """
    if not abilities.counts_deletes(engine):
        return None
    with unless_refused():
        return engine.deleted(table, server=server)
    return None


def refill(
    engine: Engine,
    tables: Sequence[TableSpec],
    since_us: int,
    server: ServerFacts | None = None,
) -> Refill | None:
    """Return what the server may have taken from others, None if nothing shows any."""
    if not abilities.shows_refill(engine):
        return None
    return engine.refill(tables, since_us, server=server)


def broken_conditions(
    engine: Engine, statement: str, epoch: int, server: ServerFacts | None = None
) -> ConditionCheck:
    """Return which conditions of a plan do not hold."""
    if not abilities.computes_conditions(engine):
        return ConditionCheck(not_done="this kind of server cannot be asked for them")
    return ConditionCheck(engine.broken_conditions(statement, epoch, server=server))


def check_tables(
    engine: Engine, tables: Sequence[TableSpec], server: ServerFacts | None = None
) -> TableCheck | None:
    """Have the server check the tables; None if it has no such check."""
    if not abilities.checks_tables(engine):
        return None
    return engine.check_tables(tables, server=server)


def require_two_phase(engine: Engine, transactions: int, *, weak: bool) -> None:
    """Raise EngineError if so many transactions cannot be prepared at once.

    weak: for a control.  Those that an earlier run left prepared are rolled back first.
    """
    if not abilities.commits_in_two_phases(engine):
        raise UsageError(
            f"dbcheck cannot prepare transactions on {engine.target}",
            id=ErrorId.TWO_PHASE_NOT_SUPPORTED,
            hint="Run another workload.",
        )
    for name in engine.prepared():
        engine.decide(name, commit=False)
    engine.require_two_phase(transactions, weak=weak)


def prepared(engine: Engine, server: ServerFacts) -> tuple[str, ...]:
    """Return the names of dbcheck's transactions that are prepared."""
    assert abilities.commits_in_two_phases(engine)  # the preflight refused the others
    return engine.prepared(server=server)


def decide(engine: Engine, name: str, server: ServerFacts, *, commit: bool) -> None:
    """Commit one of them, or roll it back; see abilities.TwoPhaseCommits."""
    assert abilities.commits_in_two_phases(engine)
    engine.decide(name, commit=commit, server=server)


def decisions(engine: Engine, server: ServerFacts) -> Decisions | None:
    """Return how many prepared transactions clients committed or rolled back.

    None if the server does not count them; see rows.prepared.Decisions.
    Raise ConnectionLost, OtherServer: the next connection may get an answer.
    """
    if not abilities.counts_decisions(engine):
        return None
    with unless_refused():
        return engine.decisions(server=server)
    return None


def require_fill(engine: Engine) -> None:
    """Raise UsageError if dbcheck cannot fill tables of this kind of server."""
    if not abilities.fills(engine):
        raise UsageError(
            f"dbcheck cannot fill the tables on {engine.target}",
            id=ErrorId.FILLING_NOT_SUPPORTED,
            hint="Run without rows_before.",
        )


def fill(
    engine: Engine, table: TableSpec, rows: Fill, server: ServerFacts
) -> Iterator[int]:
    """Insert rows into *table*; see BulkFill.fill()."""
    assert abilities.fills(engine)  # require_fill() refused the others
    return engine.fill(table, rows, server=server)


def possible_chores(
    engine: Engine, kinds: Sequence[ChoreKind]
) -> tuple[tuple[ChoreKind, ...], dict[ChoreKind, str]]:
    """Return which of the chores can be done, and why the others cannot."""
    if not abilities.keeps_house(engine):
        return (), dict.fromkeys(kinds, "dbcheck knows no such statement here")
    lacking = engine.lacking(kinds)
    return tuple(kind for kind in kinds if kind not in lacking), lacking


def discard(
    engine: Engine, tables: Sequence[TableSpec], server: ServerFacts | None = None
) -> None:
    """Drop those of the tables that are there; see Housekeeping.discard()."""
    if tables and abilities.keeps_house(engine):
        engine.discard(tables, server=server)


def present(
    engine: Engine, tables: Sequence[TableSpec], server: ServerFacts
) -> tuple[TableSpec, ...]:
    """Return those of the side tables that are there."""
    if not tables:
        return ()
    assert abilities.keeps_house(engine)  # else the workload has no housekeeping
    return engine.present(tables, server=server)


def other_settings(engine: Engine) -> tuple[OtherSettings, ...]:
    """Return what is set for other accounts and databases, () if nothing shows it."""
    return engine.other_settings() if abilities.shows_settings(engine) else ()


def data_mark(engine: Engine) -> Callable[[], str]:
    """Return what writes a mark into the data directory; see DataMark.mark_data()."""
    return engine.mark_data if abilities.marks_data(engine) else lambda: ""


def check(
    engine: Engine, workload: Workload, *, weak: bool, grouped: bool = False
) -> None:
    """Raise EngineError as Engine.check() does, for a cycle or for a control.

    weak: the cycle is a control.  Raise UsageError for a server that has none, and
    EngineError, with the GRANT as hint, if the account may not run one.
    grouped: it is tested together with the others of its group.
    """
    if weak and not abilities.weakens_sessions(engine):
        raise UsageError(
            f"no control can run on {engine.target}: dbcheck cannot make this kind of"
            " server acknowledge commits too early",
            id=ErrorId.CONTROL_NOT_SUPPORTED,
            hint="Run without a control.",
        )
    if not grouped:
        require_alone(engine)
    engine.check(statements_of(workload), payload_bytes_max(workload))
    if weak and abilities.weakens_server(engine):
        engine.check_weakening()


def require_alone(engine: Engine) -> None:
    """Raise EngineError if other servers would give it back what it lost."""
    if abilities.may_be_grouped(engine):
        engine.require_alone()


def weaken_durability(engine: Engine, *, process: bool) -> str:
    """Prepare the server for the weak sessions of a control; see WeakSessions."""
    assert abilities.weakens_sessions(engine)  # check() refused the others
    return engine.weaken_durability(process=process)


def restore_durability(engine: Engine) -> str | None:
    """Undo what a control changed on the server; None if there was nothing."""
    if not abilities.weakens_server(engine):
        return None
    return engine.restore_durability()
