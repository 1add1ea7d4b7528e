"""How many standbys have a commit before it is answered."""

from __future__ import annotations

import pytest

from dbcheck.model.cluster import SiteKind
from dbcheck.model.standbys import Demand, explain_too_few_standbys, parse_standby_names

NEWER = "rpl_semi_sync_source_wait_for_replica_count"
OLDER = "rpl_semi_sync_master_wait_for_slave_count"


@pytest.mark.parametrize(
    ("names", "demand"),
    [
        ("", Demand(0)),
        (" ", Demand(0)),
        ("a", Demand(1)),
        ("a, b", Demand(1)),
        ("*", Demand(1)),
        ("2 (a, b)", Demand(2)),
        ("FIRST 2 (a, b, c)", Demand(2)),
        ("first 1 (*)", Demand(1)),
        ("ANY 2 (a, b)", Demand(2, of_any=True)),
        (" any  1(a, b)", Demand(1, of_any=True)),
        ('"any 2 (x)", b', Demand(1)),
        ("any_2", Demand(1)),
    ],
)
def test_what_synchronous_standby_names_demands(names: str, demand: Demand) -> None:
    assert parse_standby_names(names) == demand


@pytest.mark.parametrize(
    ("kind", "writer", "lost", "says"),
    [
        (SiteKind.STREAMING, {"synchronous_standby_names": "ANY 2 (a, b)"}, 1, ""),
        (SiteKind.STREAMING, {"synchronous_standby_names": "ANY 2 (a, b, c)"}, 2,
         "once 2 of the standbys have it, and 2 may be lost"),
        (SiteKind.STREAMING, {"synchronous_standby_names": "a"}, 1,
         "synchronous_standby_names = a: "),
        (SiteKind.STREAMING, {}, 1, ""),
        (SiteKind.SEMI_SYNC, {NEWER: "2"}, 1, ""),
        (SiteKind.SEMI_SYNC, {OLDER: "2"}, 1, ""),
        (SiteKind.SEMI_SYNC, {NEWER: "1"}, 1, f"{NEWER} = 1: "),
        (SiteKind.SEMI_SYNC, {NEWER: "?"}, 1, ""),
        (SiteKind.SEMI_SYNC, {}, 1, "semi-synchronous replication: "),
    ],
)  # fmt: skip
def test_a_commit_may_be_gone_once_all_that_had_it_are(
    kind: SiteKind, writer: dict[str, str], lost: int, says: str
) -> None:
    found = explain_too_few_standbys(kind, writer, lost)
    assert says in found
    assert bool(found) is bool(says)
