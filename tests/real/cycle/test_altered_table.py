"""What somebody adds to dbcheck's table while the load runs is seen, and named."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from dbcheck.judge.item import ItemId, Status
from dbcheck.model.verdict import Verdict
from dbcheck.model.watched import FactKind, Looked, WatchTally
from dbcheck.rows.table import LEDGER, PLAIN
from tests.kit.labs import process_lab
from tests.kit.rigs import ENGINES, Bench, bench, cut_beside, quick
from tests.kit.waiting import wait_until

FUNCTION = (
    "create function public.changed() returns trigger language plpgsql as"
    " $$begin new.payload := substr(new.payload, 1, 50); return new; end$$"
)
TRIGGER = "create trigger spoils before insert on {0} for each row "
PG_TRIGGER = TRIGGER + "execute function public.changed()"
MY_TRIGGER = TRIGGER + "set new.payload = substr(new.payload, 1, 50)"
UNSHOWN = "alter table {0} stats_persistent = 1"
CHILD = "create table public.child () inherits ({0})"
COPY = "insert into public.child select * from only {0} limit 20"
MY_MAINTENANCE = ("analyze table {0}", "check table {0}", "flush tables {0}")
MAINTENANCE = {
    "postgresql": (
        "vacuum (freeze, analyze) {0}",
        "vacuum (freeze, analyze) pg_class, pg_attribute",
    )
}
OF_TABLES = (FactKind.TABLE, FactKind.TABLE_VERSION)
WAYS = {
    "a trigger": ("postgresql", (FUNCTION, PG_TRIGGER)),
    "a trigger that went again": (
        "postgresql",
        (FUNCTION, PG_TRIGGER, "rows", "drop trigger spoils on {0}"),
    ),
    "a child": ("postgresql", (CHILD, COPY)),
    "a trigger of MariaDB": ("mariadb", (MY_TRIGGER,)),
    "a trigger of MySQL": ("mysql", (MY_TRIGGER,)),
    "a trigger of MariaDB that went again": (
        "mariadb",
        (MY_TRIGGER, "look", "drop trigger spoils"),
    ),
    "an ALTER of MariaDB that shows nothing": (
        "mariadb",
        ("second", UNSHOWN, "look"),
    ),
    "an ALTER of MySQL that shows nothing": ("mysql", ("second", UNSHOWN, "look")),
}


def count(here: Bench) -> int:
    return int(here.execute(f"select count(*) from {here.table}")[0][0])


def await_rows(here: Bench) -> None:
    before = count(here)
    wait_until(lambda: count(here) > before + 20, "rows are there")


def await_second(here: Bench) -> None:
    """Wait until MySQL or MariaDB dates what is done by another second than now."""

    def now() -> str:
        return str(here.execute("select cast(utc_timestamp() as char)")[0][0])

    before = now()
    wait_until(lambda: now() != before, "another second")


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Return what waits for a look at a table that is another one than it was."""
    found: list[Looked] = []
    added = WatchTally.add

    def add(tally: WatchTally, asked_us: int, seen: Looked, answered_us: int) -> None:
        added(tally, asked_us, seen, answered_us)
        found.append(seen)

    monkeypatch.setattr(WatchTally, "add", add)

    def shown() -> bool:
        seen = {each for looked in found for each in looked.items()}
        values = Counter(fact for fact, _ in seen if fact.kind in OF_TABLES)
        return max(values.values(), default=0) > 1

    return lambda: wait_until(shown, "a look at the table")


@pytest.mark.parametrize("way", WAYS)
def test_what_is_added_takes_the_pass_away_and_accuses_nobody(
    way: str, looks: Callable[[], None], tmp_path: Path
) -> None:
    """No row is lost: the server kept what it was given."""
    engine, steps = WAYS[way]

    def act() -> None:
        await_rows(here)
        for step in steps:
            if step == "rows":
                await_rows(here)
            elif step == "look":
                looks()
            elif step == "second":
                await_second(here)
            else:
                here.execute(step.format(here.table))
        await_rows(here)

    with bench(process_lab(engine), tmp_path) as here:
        outcome = cut_beside(here, act, quick())
    assert outcome.verdict is Verdict.INCONCLUSIVE, outcome.judgement
    (same,) = [i for i in outcome.judgement.items if i.id is ItemId.SAME_TABLE]
    assert same.status is Status.CONTRADICTED
    assert same.reason in outcome.judgement.reasons[0]


@pytest.mark.wide_with("mysql")
@pytest.mark.parametrize("engine", ENGINES)
def test_a_trigger_between_two_looks_leaves_its_count(
    engine: str, tmp_path: Path
) -> None:
    def counts(found: Looked) -> set[str]:
        return {v for f, v in found.items() if f.kind is FactKind.CHANGE_COUNT}

    with bench(process_lab(engine), tmp_path) as here:
        writer = here.rig.site.writer.engine
        writer.prepare((LEDGER,))
        before = writer.table_definition(LEDGER)
        assert before.besides == PLAIN
        with contextlib.closing(writer.open_look((), None, (LEDGER,))) as look:
            first = look.read()
            if engine == "postgresql":
                here.execute(FUNCTION)
                here.execute(PG_TRIGGER.format(here.table))
                here.execute(f"drop trigger spoils on {here.table}")
            else:
                here.execute(MY_TRIGGER.format(here.table))
                here.execute("drop trigger spoils")
            wait_until(lambda: counts(look.read()) != counts(first), "another count")
        after = here.rig.site.writer.engine.table_definition(LEDGER)
        assert after.besides == PLAIN
        assert (after.version != before.version) is (engine == "postgresql")


@pytest.mark.wide_with("mysql")
@pytest.mark.parametrize("engine", ENGINES)
def test_what_maintenance_does_alters_no_table(engine: str, tmp_path: Path) -> None:
    def tables(found: Looked) -> Looked:
        return {f: v for f, v in found.items() if f.kind in OF_TABLES}

    with bench(process_lab(engine), tmp_path) as here:
        writer = here.rig.site.writer.engine
        writer.prepare((LEDGER,))
        with contextlib.closing(writer.open_look((), None, (LEDGER,))) as look:
            before = tables(look.read())
            assert {fact.kind for fact in before} == set(OF_TABLES)
            if engine != "postgresql":
                await_second(here)
            for statement in MAINTENANCE.get(engine, MY_MAINTENANCE):
                here.execute(statement.format(here.table))
            assert tables(look.read()) == before
