"""A server is recognised by its data: not by its network card, not by its place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import OtherServer, UsageError
from dbcheck.cycle.preflight.pending_runs import require_none_pending
from dbcheck.engines.mysql.link import MysqlLink
from dbcheck.lab.servers.base import DatabaseServer
from dbcheck.load.sessions import commit
from dbcheck.model.records import CutAsked
from dbcheck.model.server import find_difference_of_servers
from dbcheck.ports.engine import Engine
from dbcheck.rows.plans.plan import INSERT
from dbcheck.rows.table import LEDGER
from dbcheck.runs.folder import RunFolder, new_run_id
from tests.kit.cases import is_same
from tests.kit.nodes import one
from tests.kit.operations import INSERTS
from tests.kit.refusals import refused
from tests.kit.servers import NewServer, engine_of
from tests.kit.stored_run import manifest
from tests.kit.waiting import wait_until

# By what a session's own connection recognises its server, beside when it started.
COMPARED: dict[str, set[str]] = {
    "postgresql": set(),
    "mariadb": {"server_id", "port", "dbcheck.identity"},
    "mysql": {"server_uuid", "port"},
}


def identity(engine: Engine) -> dict[str, str]:
    """Return by what *engine* is recognised once its table is there."""
    engine.prepare((LEDGER,))
    return dict(engine.facts().identity)


def test_mariadb_with_another_network_card_is_the_same(
    mariadb_server: DatabaseServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its server_uid is another one then; no test can change the machine's card."""
    engine = engine_of(mariadb_server)
    before = identity(engine)
    rows = MysqlLink.rows

    def other_card(link: MysqlLink, name: str, *args: Any, **more: Any) -> Any:
        found = rows(link, name, *args, **more)
        if name == "variables":
            found = [(n, "another" if n == "server_uid" else v) for n, v in found]
        return found

    monkeypatch.setattr(MysqlLink, "rows", other_card)
    assert is_same(before, engine.facts().identity)


def test_the_data_of_mariadb_keep_their_name(
    new_server: NewServer, mariadb_server: DatabaseServer
) -> None:
    server = new_server("mariadb")
    server.start()
    engine = engine_of(server)
    before = identity(engine)
    assert identity(engine) == before
    server.kill()
    server.start()
    after = engine.facts().identity
    assert after == before
    assert is_same(before, after)
    other = identity(engine_of(mariadb_server))
    in_its_place = {**before, "dbcheck.identity": other["dbcheck.identity"]}
    assert find_difference_of_servers(before, in_its_place)
    assert "dbcheck.identity" in engine.drop()
    assert "dbcheck.identity" not in engine.facts().identity


def test_a_replica_of_mariadb_is_another_one(mariadb_server: DatabaseServer) -> None:
    """It has every row of its primary, and a server_id of its own."""
    before = identity(engine_of(mariadb_server))
    assert before["server_id"] == "1"
    assert find_difference_of_servers(before, {**before, "server_id": "2"})


@pytest.mark.parametrize("known_by", ["data", "rows"])
def test_a_run_that_is_not_judged_is_found_under_another_name(
    engine: Engine, known_by: str, tmp_path: Path
) -> None:
    """By the name of the data, or by the rows in the table where they have none."""
    here = identity(engine)
    strange = {name: f"not {value}" for name, value in here.items()}
    made = replace(manifest(), family=engine.family, epoch=1)  # that of INSERTS

    def pend(identity: dict[str, str]) -> None:
        facts = replace(made.writer.facts, identity=identity)
        nodes = one(replace(made.writer, facts=facts))
        run_id = new_run_id("20260102-030405")
        run = RunFolder.create(tmp_path, replace(made, run_id=run_id, nodes=nodes))
        run.write_cut_asked(CutAsked(1))

    pend({})
    pend(strange)
    require_none_pending(tmp_path, engine)
    if known_by == "data":
        pend(here)
    else:
        session = engine.open_session(INSERTS.statements)
        commit(session, INSERTS.operation(1, 1))
        session.close()
    with refused(ErrorId.RUN_NOT_JUDGED, UsageError):
        require_none_pending(tmp_path, engine)


@pytest.mark.wide_with("mysql")
def test_only_the_server_that_was_meant_is_read_or_written(
    own_server: DatabaseServer,
) -> None:
    """Each call checks the server in the connection that it then uses."""
    own_server.start()
    engine = engine_of(own_server)
    engine.prepare((LEDGER,))
    before = engine.facts()
    engine.open_session((INSERT,), server=before).close()
    wait_until(
        lambda: engine.facts().start_ambiguous_us <= 0, "a later start can be told"
    )
    own_server.kill()
    own_server.start()
    now = engine.facts()
    calls: list[Callable[..., Any]] = [
        partial(engine.prepare, (LEDGER,)),
        partial(engine.table_identity, LEDGER),
        partial(engine.open_session, (INSERT,)),
        partial(engine.plant_canary, 1),
        partial(engine.canary, 1),
        lambda server: list(engine.survivors((LEDGER,), server=server)),
    ]
    for call in calls:
        with refused(
            ErrorId.DIFFERENT_SERVERS_ANSWER,
            OtherServer,
            naming=("it started", "s later"),
        ):
            call(server=before)
        opened = call(server=now)
        if hasattr(opened, "close"):
            opened.close()
    for name in COMPARED[own_server.name]:
        value = now.identity[name]
        other = replace(now, identity={**now.identity, name: f"not {value}"})
        with refused(
            ErrorId.DIFFERENT_SERVERS_ANSWER,
            OtherServer,
            naming=f"{name} is {value} instead of",
        ):
            engine.open_session((INSERT,), server=other)
