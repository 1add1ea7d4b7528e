"""What the control of a cluster needs of an account, and of its sessions."""

from __future__ import annotations

from typing import Any

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import EngineError, UsageError
from dbcheck.cli.grants import Server, list_statements
from dbcheck.config.workload_file import load
from dbcheck.cycle.preflight.members import refuse_plan_of_control
from dbcheck.engines.mysql.account import require_rights
from dbcheck.engines.mysql.replicating import leave_replication
from dbcheck.engines.postgresql.replication import find_missing_for_control
from dbcheck.model.cluster import SiteKind, Weakens
from dbcheck.rows.operation import Usage
from dbcheck.rows.workload import PlanKind
from dbcheck.server_log import Product
from tests.kit.recorded_servers import RecordedLink
from tests.kit.refusals import refused

MYSQL = ("8.4.3", "MySQL Community Server - GPL", "dbcheck@%")
MARIADB = ("11.4.2-MariaDB", "mariadb.org binary distribution", "dbcheck@%")
OLDER = ("10.11.6-MariaDB", "mariadb.org binary distribution", "dbcheck@%")
NEEDED = {
    Product.POSTGRESQL: (SiteKind.STREAMING, "grant pg_signal_backend to dbcheck;"),
    Product.MYSQL: (
        SiteKind.SEMI_SYNC,
        "grant session_variables_admin on *.* to dbcheck@'%';",
    ),
    Product.MARIADB: (SiteKind.SEMI_SYNC, "grant binlog admin on *.* to dbcheck@'%';"),
}


def list_required(product: Product, topology: SiteKind, *, control: bool) -> list[str]:
    server = Server(product, topology=topology)
    result = list_statements(
        server, load("insert"), control=control, required_only=True
    )
    return [right.statement for right in result.rights]


@pytest.mark.parametrize("product", list(NEEDED))
def test_the_grants_of_a_cluster_have_what_its_control_needs(product: Product) -> None:
    """And none to change settings of the whole server, which it does not do."""
    topology, statement = NEEDED[product]
    without = list_required(product, topology, control=False)
    assert list_required(product, topology, control=True) == [*without, statement]


@pytest.mark.parametrize(
    ("version", "privileges", "lacks"),
    [
        (MYSQL, "SESSION_VARIABLES_ADMIN", ""),
        (MYSQL, "SYSTEM_VARIABLES_ADMIN", ""),
        (MYSQL, "SUPER", ""),
        (MYSQL, "RELOAD", "SESSION_VARIABLES_ADMIN on *.*"),
        (MARIADB, "BINLOG ADMIN", ""),
        (MARIADB, "SUPER", "BINLOG ADMIN on *.*"),
        (OLDER, "SUPER", ""),
        (OLDER, "RELOAD", "BINLOG ADMIN on *.*"),
    ],
)
def test_a_control_is_refused_without_the_right_to_leave_the_binary_log(
    version: tuple[str, str, str], privileges: str, lacks: str
) -> None:
    answers: dict[str, Any] = {
        "server": [version],
        "variables": [],
        "grants": [(f"GRANT {privileges} ON *.* TO `dbcheck`@`%`",)],
    }
    of_replica = ("replica_status", "replica_status_mariadb", "replica_status_8_0_21")
    link: Any = RecordedLink(answers | dict.fromkeys(of_replica, ()))
    if not lacks:
        return require_rights(link, Usage({}), "d", Weakens.REPLICATION)
    with refused(ErrorId.PRIVILEGE_MISSING, EngineError, naming=lacks):
        require_rights(link, Usage({}), "d", Weakens.REPLICATION)


@pytest.mark.parametrize(
    ("rows", "statements"),
    [
        ([], []),
        ([("me", False)], ["grant pg_signal_backend to me;"]),
        ([("me", True)], ["alter role me superuser;"]),
    ],
)
def test_what_disconnects_standbys_is_named(
    rows: list[tuple[str, bool]], statements: list[str]
) -> None:
    link: Any = RecordedLink({"detach_rights": rows})
    assert [each.statement for each in find_missing_for_control(link)] == statements


@pytest.mark.parametrize("replicates", [0, 1])
@pytest.mark.parametrize(
    ("node", "place", "why"),
    [
        ([], "binlog", "sql_log_bin is 1"),
        (
            [("wsrep_on", "ON"), ("wsrep_provider", "libgalera_smm.so")],
            *("cluster", "wsrep_on is ON"),
        ),
    ],
)
def test_a_session_that_goes_on_to_replicate_is_refused(
    node: list[tuple[str, str]], place: str, why: str, replicates: int
) -> None:
    answers: dict[str, Any] = {"server": [MARIADB], "cluster_node": node}
    answers |= {f"leave_{place}": (), f"in_{place}": [(replicates,)]}
    link: Any = RecordedLink(answers)
    if not replicates:
        return leave_replication(link)
    with refused(ErrorId.CONNECTION_NOT_DIRECT, EngineError, naming=why):
        leave_replication(link)


@pytest.mark.parametrize("plan", [PlanKind.TWO_PHASE, PlanKind.CLASSIC])
def test_no_control_of_a_cluster_runs_with_such_a_workload(plan: PlanKind) -> None:
    refuse_plan_of_control(plan, None)
    refuse_plan_of_control(plan, Weakens.FLUSH)
    refuse_plan_of_control(PlanKind.INSERT, Weakens.REPLICATION)
    with refused(ErrorId.CONTROL_CANNOT_PREPARE, UsageError, naming=plan.value):
        refuse_plan_of_control(plan, Weakens.REPLICATION)
