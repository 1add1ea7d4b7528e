"""What a cluster of labs is made of, as plain values."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Annotated, Any

from msgspec import Meta

from dbcheck.core.cut import PowerScope
from dbcheck.core.promise import Promise
from dbcheck.errors import UsageError
from dbcheck.lab.spec import TIME_MAX, LabSpec
from dbcheck.validated import one_of, require

NODES_MAX = 5
ENGINES = ("postgresql", "mysql", "mariadb")  # whose servers can follow one another


@dataclass(frozen=True, slots=True)
class ClusterSpec:
    """What makes a cluster of several labs, each with a drive of its own.

    nodes:   how many; the first one writes.
    promise: see core.promise.Promise.
    link_delay_ms: how long each byte between the writer and a standby takes.
    link_down_after_s: seconds of load after which the links go down; 0: never.
    """

    nodes: Annotated[int, Meta(ge=2, le=NODES_MAX)] = 2
    promise: Annotated[str, one_of([each.value for each in Promise])] = (
        Promise.WRITER_GONE.value
    )
    link_delay_ms: Annotated[float, Meta(ge=0, le=TIME_MAX)] = 0.0
    link_down_after_s: Annotated[float, Meta(ge=0, le=TIME_MAX)] = 0.0

    def __post_init__(self) -> None:
        """Refuse what no such cluster can be."""
        require(self, "a cluster")

    def to_values(self) -> dict[str, Any]:
        """Return the spec as plain values."""
        return asdict(self)

    @property
    def names(self) -> list[str]:
        """The names of the nodes, the writer's first."""
        return [f"node{number}" for number in range(1, self.nodes + 1)]


def require_possible(lab: LabSpec) -> None:
    """Raise UsageError if labs of that spec cannot make a cluster."""
    if lab.engine not in ENGINES:
        raise UsageError(
            f"a lab has no clusters of {lab.engine} servers",
            hint=f"Use --engine {' or '.join(ENGINES)}.",
        )
    if lab.power_scope != PowerScope.HOST.value:
        raise UsageError(
            "the drives of a cluster cannot lose their power alone",
            hint="Leave out --power-scope.",
        )
