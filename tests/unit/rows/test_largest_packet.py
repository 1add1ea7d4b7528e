"""What is refused for max_allowed_packet is what an operation can really need."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import EngineError
from dbcheck.config import files, workload_file
from dbcheck.engines.mysql.check import require_packet
from dbcheck.engines.mysql.session import _text
from dbcheck.engines.mysql.wire import Template
from dbcheck.rows.acks import HOUSEKEEPING_SESSION
from dbcheck.rows.operation import Operation, Verb
from dbcheck.rows.plans.registry import payload_bytes_max, plan_of, statements_of
from dbcheck.rows.schedule import Schedule
from dbcheck.rows.tasks import TaskKind
from dbcheck.rows.workload import Workload
from tests.kit.refusals import refused

NAMES = [name for name in files.list_workload_names() if name != "classic"]
LARGE = [
    replace(workload_file.load(name), payload_bytes=(1 << 20,))
    for name in ("mixed", "rollback", "two-phase")
]


def largest(load: Workload) -> int:
    """Return the bytes of the largest query among many operations of *load*."""
    kinds = tuple(kind for kind in load.housekeeping if kind is not TaskKind.VACUUM)
    load = replace(load, housekeeping=kinds)
    plan = plan_of(load, Schedule(1, 2, load.payload_bytes))
    specs = {*statements_of(load), *plan.housekeeping_statements}
    rows = {
        spec.name: spec for spec in specs if spec.verb in {Verb.INSERT, Verb.UPDATE}
    }
    templates = {
        name: Template(_text(spec), spec.parameters) for name, spec in rows.items()
    }

    def size(operation: Operation) -> int:
        return sum(
            len(templates[one.name].filled(one.values))
            for one in operation.statements
            if one.name in templates
        )

    sessions = [1, 2, HOUSEKEEPING_SESSION] if kinds else [1, 2]
    return max(size(plan.operation(s, seq)) for s in sessions for seq in range(1, 120))


@pytest.mark.wide_with("rollback-1048576", "two-phase-1048576")
@pytest.mark.parametrize(
    "load",
    [*map(workload_file.load, NAMES), *LARGE],
    ids=lambda one: f"{one.name}-{max(one.payload_bytes)}",
)
def test_a_limit_that_is_not_refused_is_enough(load: Workload) -> None:
    needed = largest(load)
    too_small = {"max_allowed_packet": str(needed - 1)}
    with refused(ErrorId.PACKET_LIMIT_TOO_SMALL, EngineError):
        require_packet(too_small, payload_bytes_max(load))
    # Nor is much more demanded than is needed.
    require_packet(
        {"max_allowed_packet": str(2 * needed + (32 << 10))}, payload_bytes_max(load)
    )
