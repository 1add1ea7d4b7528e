"""Settings of a load: what its sessions do, and when its cut comes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated

from msgspec import Meta

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import UsageError
from dbcheck.base.limits import (
    CUT_AFTER_S_MAX,
    PAYLOAD_BYTES_MAX,
    PROCESSES_MAX,
    RAMP_S_MAX,
    RATE_MAX,
    READERS_MAX,
    ROWS_BEFORE_MAX,
    SESSIONS_MAX,
)
from dbcheck.base.setting import Setting
from dbcheck.base.text import Explained
from dbcheck.rows.acks import SESSION_MAX
from dbcheck.rows.mix import Mix
from dbcheck.rows.tasks import TaskKind


class PlanKind(Explained):
    """Kind of plan that a workload follows; rows.plans.registry has the plans."""

    INSERT = "insert", "One row for each commit."
    MIXED = "mixed", "Kinds of operations, by weight."
    TWO_PHASE = (
        "two-phase",
        "Transactions that one operation prepares and the next one commits or rolls "
        "back.",
    )
    REGISTERS = (
        "registers",
        "Transactions that insert a row and update a row of another table.",
    )
    ORDER_ENTRY = (
        "order-entry",
        "Orders with their lines, and payments, after TPC-C.",
    )
    CLASSIC = "classic", "An auto-increment id and nothing else."


assert SESSIONS_MAX < SESSION_MAX  # session numbers are left for reconnecting clients

# Of 16 cores, at 16 and 64 sessions on a server in memory, one process makes 50,000
# commits/s and four make 110,000; more cost the client cores, and make no more.  Each
# leaves one core to the kernel, to the witness's channel and to the readers.
_CHOSEN_MAX = 4
_RATE_OF_ONE = 10_000  # commits/s, which one process makes with ease

_Moment = Annotated[float, Meta(gt=0, le=CUT_AFTER_S_MAX)]


@dataclass(frozen=True, slots=True)
class Workload:
    """Settings of the sessions, and the time of the cut.

    A field with a description is a key of a workload file; one with a Setting can be
    set elsewhere, too, see base.setting. payload_bytes is empty if the plan is classic,
    and operations is None if it has only one kind; see rows.seen for readers and
    rows.tasks for housekeeping.  processes is None until for_cores() chose a number,
    and cores is what it chose it for; None if the number was given.
    """

    name: str
    description: Annotated[str, Meta(description="What the load does, for people.")]
    plan: Annotated[
        PlanKind,
        Meta(
            description="The kind of load: the tables, the operations, and what the "
            "tables must hold after a cut."
        ),
    ]
    sessions: Annotated[
        int,
        Meta(ge=1, le=SESSIONS_MAX),
        Meta(
            description="Client connections, each with at most one transaction in "
            "flight."
        ),
        Setting("--sessions"),
    ] = 1
    payload_bytes: Annotated[
        tuple[Annotated[int, Meta(ge=1, le=PAYLOAD_BYTES_MAX)], ...],
        Meta(
            description="Sizes in bytes to draw from; one that is listed twice is "
            'drawn twice as often. Not with `plan = "classic"`.'
        ),
        Setting(nothing="fixed"),
    ] = ()
    cut_after_s: Annotated[
        tuple[_Moment, _Moment],
        Meta(
            description="The earliest and the latest moment of the cut, in seconds of "
            "load."
        ),
    ] = (3.0, 6.0)
    rate: Annotated[
        float,
        Meta(ge=0, le=RATE_MAX),
        Meta(
            description="Commits per second of all sessions together; 0: as many as "
            "can be."
        ),
        Setting("--rate", unit="/s", nothing="as fast as it can"),
    ] = 0.0
    ramp_s: Annotated[
        float,
        Meta(ge=0, le=RAMP_S_MAX),
        Meta(description="Seconds over which the sessions start, one after the other."),
        Setting("--ramp", "S", unit=" s"),
    ] = 0.0
    processes: Annotated[
        Annotated[int, Meta(ge=1, le=PROCESSES_MAX)] | None,
        Meta(
            description="Client processes that share the sessions, at most one for "
            "each session. Without it one for every two cores of the client, with four "
            f"sessions each or more, up to {_CHOSEN_MAX}; one in a lab, whose server "
            "has the same cores, with `--lockstep`, and with a `rate` up to "
            f"{_RATE_OF_ONE:,}."
        ),
        Setting(
            "--processes",
            help="Client processes that share the sessions, each on a core and with a "
            "witness log of its own. If the workload has no number, one in a lab, "
            "else chosen by the client's cores and the sessions.",
            nothing="not given",
        ),
    ] = None
    readers: Annotated[
        int,
        Meta(ge=0, le=READERS_MAX),
        Meta(
            description="Connections that read the newest rows of the other sessions "
            "while the load runs. What they see is logged on the witness, so that rows "
            "that were seen and then lost are counted, beside the verdict. Not with "
            '`plan = "classic"`.'
        ),
        Setting(
            "--readers",
            help="Connections that read the newest rows meanwhile, so that rows that "
            "were seen and then lost are counted.",
        ),
    ] = 0
    rows_before: Annotated[
        int,
        Meta(ge=0, le=ROWS_BEFORE_MAX),
        Meta(
            description="Rows that each table of the operations holds before the load, "
            "at least. Those that are there count, whichever run left them; what is "
            "missing is inserted in bulk, with sizes from `payload_bytes`. All rows in "
            "the tables are then read and their checksums compared, unless the "
            "campaign's last cycle read them, so a cut that removes or changes one of "
            "them is found."
        ),
        Setting(
            "--rows-before",
            help="Rows that each table must hold before the load; what is missing is "
            "filled in.",
        ),
    ] = 0
    operations: Annotated[
        Mix | None,
        Meta(
            description='With `plan = "mixed"`: a table of weights, how often each '
            "kind of operation comes, as in `workloads/mixed.toml`."
        ),
    ] = None
    housekeeping: Annotated[
        tuple[TaskKind, ...],
        Meta(
            description="Kinds of tasks that one more session does beside the others, "
            "drawn one after the other. Those that the server, or the account, cannot "
            'do are left out, and the run says so. Not with `plan = "classic"`.'
        ),
    ] = ()
    finds: Annotated[
        str,
        Meta(description="Which losses it can find that others cannot, for people."),
    ] = ""
    cost: Annotated[str, Meta(description="What it takes, for people.")] = ""
    cores: int | None = None

    def with_sessions(self, sessions: int | None) -> Workload:
        """Return the workload with another number of sessions, if one is given."""
        if sessions is None:
            return self
        if not 1 <= sessions <= SESSIONS_MAX:
            raise UsageError(
                f"{sessions} sessions cannot be run",
                id=ErrorId.VALUE_INVALID,
                hint=f"Give a number from 1 to {SESSIONS_MAX}.",
            )
        return replace(self, sessions=sessions).limited()

    def with_processes(self, processes: int | None) -> Workload:
        """Return the workload with another number of processes, if one is given."""
        if processes is None:
            return self
        return replace(self, processes=processes).limited()

    def limited(self) -> Workload:
        """Return the workload with at most one process for each session."""
        if self.processes is None:
            return self
        return replace(self, processes=min(self.processes, self.sessions))

    def for_cores(self, cores: int) -> Workload:
        """Return the workload with a number of processes; one that was given stays.

        cores: how many the client may use.
        """
        if self.processes is not None:
            return self
        fitting = min(_CHOSEN_MAX, cores // 2, self.sessions // 4)
        if 0 < self.rate <= _RATE_OF_ONE:
            fitting = 1
        return replace(self, processes=max(1, fitting), cores=cores)


def describe_processes(processes: int, cores: int | None) -> str:
    """Return the number of processes in words, with the cores that decided it.

    cores: None if the user gave the number.  "" for one process that was not chosen.
    """
    if cores is None and processes == 1:
        return ""
    counted = f"{processes} client process{'es' if processes > 1 else ''}"
    if cores is None:
        return counted
    return f"{counted} on {cores} core{'s' if cores > 1 else ''}"
