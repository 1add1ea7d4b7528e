"""YugabyteDB and CockroachDB, which cannot run here: what they answer, as recorded.

version() is as in YugabyteDB's documentation (Versioning), and as clients of both print
it; yb_servers() as in its documentation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from dbcheck.audit.rules import RULES, flagged
from dbcheck.audit.servers import is_guarded, server_subject
from dbcheck.core.depth import Depth
from dbcheck.core.readings import Readings
from dbcheck.core.server import difference, unread_identity
from dbcheck.engines.postgresql.check import (
    COCKROACHDB,
    POSTGRESQL,
    YUGABYTEDB,
    Product,
    product_of,
    require_product,
)
from dbcheck.engines.postgresql.cockroachdb import CockroachEngine
from dbcheck.engines.postgresql.engine import PostgresqlEngine
from dbcheck.engines.postgresql.wire import PostgresqlWire
from dbcheck.engines.postgresql.yugabytedb import YugabyteEngine
from dbcheck.errors import EngineError
from dbcheck.judge.item import Standing
from dbcheck.judge.settings import Settings
from dbcheck.ports import abilities
from tests.kit.recorded_servers import RecordedLink

YB = "PostgreSQL 15.12-YB-2025.1.0.0-b0 on x86_64-pc-linux-gnu, compiled by clang"
OLD_YB = "PostgreSQL 11.2-YB-2.20.1.0-b0 on x86_64-pc-linux-gnu, compiled by clang"
CRDB = "CockroachDB CCL v26.2.0 (x86_64-unknown-linux-gnu, built 2026/05/04)"
PG = "PostgreSQL 16.4 on x86_64-pc-linux-gnu, compiled by gcc"
NODES = [("7e4abfe19eb74c18a352fbfe99",), ("d42d033f334242b2becbc43e028f64a2",)]

Link = Callable[[type[PostgresqlWire], dict[str, Any]], RecordedLink]


@pytest.fixture
def answering(monkeypatch: pytest.MonkeyPatch) -> Link:
    """Have the connections of a kind of engine answer what was recorded."""

    def answer(kind: type[PostgresqlWire], answers: dict[str, Any]) -> RecordedLink:
        link = RecordedLink(answers)
        monkeypatch.setattr(kind, "_open", lambda *_, **__: link)
        return link

    return answer


@pytest.mark.parametrize(
    ("version", "product"),
    [
        (PG, POSTGRESQL),
        (YB, YUGABYTEDB),
        (OLD_YB, YUGABYTEDB),
        (CRDB, COCKROACHDB),
        ("PostgreSQL 9.2.4 on Greenplum Database 7.1.0", None),
        ("PostgreSQL 8.0.2 on i686-pc-linux-gnu, Redshift 1.0.12103", None),
        ("PostgreSQL 9.5.0-RisingWave-1.8.0", None),
        ("Something 15", None),
    ],
)
def test_a_product_is_known_by_its_own_sentence(
    version: str, product: Product | None
) -> None:
    assert product_of(version) is product


@pytest.mark.parametrize(
    ("version", "wanted", "hint"),
    [
        (YB, POSTGRESQL, "Write yugabytedb:// in place of postgresql://"),
        (CRDB, POSTGRESQL, "Write cockroachdb:// in place of postgresql://"),
        (PG, YUGABYTEDB, "Write postgresql:// in place of yugabytedb://"),
        (CRDB, YUGABYTEDB, "Write cockroachdb:// in place of yugabytedb://"),
        ("PostgreSQL 8.0.2, Redshift 1.0", POSTGRESQL, "Name a server of PostgreSQL"),
    ],
)
def test_a_url_that_names_another_product_is_refused(
    version: str, wanted: Product, hint: str
) -> None:
    with pytest.raises(EngineError, match=f"the server is not {wanted.name} but") as e:
        require_product(version, 15_00_00, wanted)
    assert hint in e.value.hint


def test_an_old_yugabytedb_is_refused() -> None:
    with pytest.raises(EngineError, match="YugabyteDB 11 is not supported") as e:
        require_product(OLD_YB, 11_02_00, YUGABYTEDB)
    assert e.value.hint == "Use YugabyteDB 2025.1 or newer."


# ------------------------------------------------------------------- YugabyteDB


def yugabytedb(answering: Link, nodes: list[tuple[str]] | None = None) -> Any:
    row = ("15.12-YB-2025.1.0.0-b0", "150012", 10, "orders 16384", 99, YB)
    answers: dict[str, Any] = {"facts": [row], "settings": [("fsync", "on")]}
    if nodes is not None:
        answers["yb_servers"] = nodes
    link = answering(YugabyteEngine, answers)
    facts = YugabyteEngine("yugabytedb://db@db1:5433/orders").facts()
    assert "settings" not in link.asked  # PostgreSQL's mean nothing to it
    return facts


def test_yugabytedb_is_known_by_the_nodes_of_its_cluster(answering: Link) -> None:
    facts = yugabytedb(answering, NODES)
    assert (facts.product, facts.version) == ("YugabyteDB", "15.12-YB-2025.1.0.0-b0")
    assert facts.identity["yb_servers"] == f"{NODES[0][0]},{NODES[1][0]}"
    assert facts.started_us == 10
    other = yugabytedb(answering, NODES[:1]).identity
    assert "a different server" in difference(facts.identity, other)
    unknown = yugabytedb(answering)
    assert "yb_servers" in unknown.unreadable
    assert "yb_servers()" in unread_identity(facts.identity, unknown.identity)


def test_yugabytedb_is_ready_once_its_nodes_and_catalog_answer(answering: Link) -> None:
    engine = YugabyteEngine("yugabytedb://db@db1/orders")
    # It is never in recovery, so nothing is asked about that.
    link = answering(YugabyteEngine, {"yb_servers": NODES, "present": []})
    assert engine.ready() is None
    assert "server" not in link.asked
    answering(YugabyteEngine, {"yb_servers": [], "present": []})
    assert engine.ready() == "no server of the cluster is there yet"
    answering(YugabyteEngine, {"yb_servers": NODES})
    assert engine.ready() == "refused: present"


def test_no_run_of_yugabytedb_passes_as_its_flag_is_not_shown(answering: Link) -> None:
    settings = yugabytedb(answering, NODES).settings
    (unread,) = flagged("yugabytedb", settings)
    found = Settings((unread,), Depth.DRIVE).item(kept=True)
    assert (found.standing, found.required) == (Standing.NOT_OBSERVABLE, True)
    assert found.reason.endswith("commits may depend on it: durable_wal_write")
    # What PostgreSQL's rules would say of it is not asked.
    assert {rule.id for rule in RULES["yugabytedb"]} == {"yb-durable-wal-write"}


# ------------------------------------------------------------------ CockroachDB


CLUSTER = [("029c665d-e668-4f2a-8ff9-165a56c8b2cf", "1")]


def test_cockroachdb_is_known_by_its_cluster(answering: Link) -> None:
    answers = {
        "crdb_facts": [(CRDB, "orders", 99)],
        "crdb_cluster": CLUSTER,
        "crdb_settings": [("kv.raft_log.synchronization.unsafe.disabled", "true")],
    }
    answering(CockroachEngine, answers)
    facts = CockroachEngine("cockroachdb://db@db1:26257/orders").facts()
    assert (facts.product, facts.version) == ("CockroachDB", "26.2.0")
    assert facts.identity["cluster_id"] == CLUSTER[0][0]
    assert unread_identity(facts.identity, facts.identity) == ""
    (finding,) = flagged("cockroachdb", facts.settings)
    assert finding.rule.id == "crdb-raft-log-sync"
    assert finding.loses_at(Depth.PROCESS)
    name = server_subject("cockroachdb", facts, None, Readings()).name
    assert name == "CockroachDB 26.2.0"
    assert is_guarded("cockroachdb", facts.settings)


def test_what_cockroachdb_restricts_is_not_known(answering: Link) -> None:
    # From 26.1 on crdb_internal is refused by default (SQLSTATE 42501).
    answering(CockroachEngine, {"crdb_facts": [(CRDB, "orders", 99)]})
    facts = CockroachEngine("cockroachdb://db@db1/orders").facts()
    assert facts.unreadable.keys() == {"cluster_id", "cluster settings"}
    (finding,) = flagged("cockroachdb", facts.settings)
    assert finding.value is None


def test_cockroachdb_is_never_in_recovery_and_never_cut(answering: Link) -> None:
    engine = CockroachEngine("cockroachdb://db@db1/orders")
    answering(CockroachEngine, {"crdb_facts": [(CRDB, "orders", 99)]})
    assert engine.ready() is None
    answering(CockroachEngine, {})
    assert engine.ready() == "refused: crdb_facts"
    with pytest.raises(EngineError, match="dbcheck cuts no CockroachDB"):
        engine.check(())
    with pytest.raises(EngineError, match="makes no tables in CockroachDB"):
        engine.drop()  # as dbcheck clean does, which checks nothing before


@pytest.mark.parametrize("kind", [YugabyteEngine, CockroachEngine])
def test_what_rests_on_postgresql_s_own_files_is_no_ability(
    kind: Callable[[str], PostgresqlWire],
) -> None:
    own, engine = PostgresqlEngine("postgresql://db1/x"), kind("x://db1/x")
    for able in (
        abilities.makes_checkpoints,
        abilities.has_crash_canary,
        abilities.weakens_sessions,
        abilities.identifies_tables,
        abilities.computes_conditions,
        abilities.checks_tables,
        abilities.commits_in_two_phases,
        abilities.fills,
        abilities.keeps_house,
        abilities.shows_settings,
    ):
        assert able(own)
        assert not able(engine)


# ------------------------------------------------- what calls itself PostgreSQL


@pytest.mark.parametrize("version", [YB, CRDB])
def test_an_audit_does_not_believe_what_another_product_says_of_fsync(
    version: str, answering: Link
) -> None:
    row = ("15.12", "150012", 10, "orders 5", 99, version)
    answering(PostgresqlEngine, {"facts": [row], "settings": [("fsync", "on")]})
    with pytest.raises(EngineError, match="the server is not PostgreSQL but"):
        PostgresqlEngine("postgresql://db@db1/orders").facts()


def test_a_storage_that_is_not_postgresql_s_is_seen_by_its_settings(
    answering: Link,
) -> None:
    row = ("16.4", "160004", 10, "orders 5", 99, PG)
    shown = [("fsync", "off"), ("neon.timeline_id", "3f1c")]
    answering(PostgresqlEngine, {"facts": [row], "settings": shown})
    with pytest.raises(EngineError, match="but Neon: it has the setting neon.time"):
        PostgresqlEngine("postgresql://db@db1/orders").facts()
