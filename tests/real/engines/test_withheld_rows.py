"""What keeps the rows from being read after a cut is waited for, and no loss."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import RowsWithheld
from dbcheck.model.verdict import Verdict
from dbcheck.rows.table import LEDGER
from tests.kit.accounts import ACCOUNT, Least, connect, statements
from tests.kit.accounts import new_least as new_least
from tests.kit.lab_access import connect as connect_lab
from tests.kit.labs import process_lab
from tests.kit.refusals import refused
from tests.kit.rigs import Bench, bench
from tests.kit.waiting import wait_until

LOCK = {
    "postgresql": ("begin", "lock table dbcheck.ledger"),
    "mariadb": ("lock tables ledger write",),
    "mysql": ("lock tables ledger write",),
}
ON_TABLE = f"select on dbcheck.ledger from {ACCOUNT}"
POLICY = "alter table dbcheck.ledger {} row level security"
LOCKED, REFUSED = ErrorId.ROWS_LOCKED, ErrorId.ROWS_NOT_PERMITTED


def run(connection: Any, *lines: str) -> None:
    cursor = connection.cursor()
    for line in lines:
        cursor.execute(line)


@pytest.mark.parametrize(
    ("engine", "withhold", "give_back", "expected"),
    [
        ("postgresql", LOCK["postgresql"], ("rollback",), LOCKED),
        ("mariadb", LOCK["mariadb"], ("unlock tables",), LOCKED),
        ("mysql", LOCK["mysql"], ("unlock tables",), LOCKED),
        (
            "postgresql",
            (f"revoke {ON_TABLE}",),
            (f"grant {ON_TABLE.replace('from', 'to')}",),
            REFUSED,
        ),
        (
            "postgresql",
            (POLICY.format("enable"), POLICY.format("force")),
            (POLICY.format("disable"),),
            REFUSED,
        ),
        (
            "mariadb",
            (f"revoke select on dbcheck.* from {ACCOUNT}@'%'",),
            (f"grant select on dbcheck.* to {ACCOUNT}@'%'",),
            REFUSED,
        ),
    ],
    ids=[
        "lock-pg",
        "lock-mariadb",
        "lock-mysql",
        "revoke-pg",
        "policy",
        "revoke-maria",
    ],
)
def test_what_withholds_rows_is_named(
    engine: str,
    withhold: tuple[str, ...],
    give_back: tuple[str, ...],
    expected: ErrorId,
    new_least: Callable[[str], Least],
) -> None:
    least = new_least(engine)
    for statement in statements(engine):
        least.run(statement)
    reader = least.engine()
    reader.prepare((LEDGER,))
    with contextlib.closing(connect(least.server, "dbcheck")) as admin:
        run(admin, *withhold)
        with refused(expected, RowsWithheld) as caught:
            list(reader.survivors((LEDGER,)))
        assert caught.value.hint
        run(admin, *give_back)
    assert list(reader.survivors((LEDGER,))) == []


@pytest.mark.parametrize("engine", ["postgresql", "mariadb"])
def test_a_lock_is_waited_for_and_then_nothing_is_final(
    engine: str, tmp_path: Path
) -> None:
    with bench(process_lab(engine), tmp_path) as here:
        started = here.cut_cycle()
        lab = here.lab
        with contextlib.closing(connect_lab(lab.target_url, lab.password)) as holder:
            run(holder, *LOCK[engine])
            impatient = replace(here.rig.limits, return_s=1.0)
            short = Bench(lab, replace(here.rig, limits=impatient), here.said)
            outcome = short.judge(started)
            assert outcome.verdict is Verdict.INCONCLUSIVE, outcome.judgement
            assert not outcome.result.final
            number = getattr(holder, "info", None)
            number = number.backend_pid if number else holder.connection_id
            assert str(number) in outcome.after.unanswered
            said = len(here.said.text)
            with ThreadPoolExecutor(1) as pool:
                judged = pool.submit(here.judge, started)
                wait_until(lambda: "waiting: " in here.said.text[said:], "it waits")
                run(holder, "rollback" if engine == "postgresql" else "unlock tables")
                outcome = judged.result()
    assert outcome.verdict is Verdict.PASS, outcome.judgement
    assert outcome.result.final
