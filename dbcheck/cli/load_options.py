"""The flags that say what the sessions do."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated

import click

from dbcheck import dask, limits
from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import UsageError
from dbcheck.cli.entry_options import EntryOptions
from dbcheck.cli.groups import Flag, Group
from dbcheck.cli.options import SECONDS, SEED, Number, completed
from dbcheck.files import workload_names
from dbcheck.rows.workload import Workload
from dbcheck.witness.window import WindowLimits

if TYPE_CHECKING:
    from dbcheck.inventory.entry import Entry


@dataclass(frozen=True)
class WorkloadOptions(Group):
    """What the sessions do, how many there are, and how fast."""

    section = "Load"

    workload: Annotated[
        str,
        Flag(
            "--workload",
            show_default=True,
            metavar="NAME|FILE",
            help="A workload by its name (see: dbcheck workloads), or a TOML file of "
            "your own.",
            shell_complete=completed(workload_names, or_file=True),
        ),
    ] = "insert"
    sessions: Annotated[
        int | None,
        Flag(
            "--sessions",
            type=int,
            metavar="N",
            help="Connections that commit. Default: the workload's.",
        ),
    ] = None
    processes: Annotated[
        int | None,
        Flag(
            "--processes",
            type=click.IntRange(1, limits.PROCESSES_MAX),
            metavar="N",
            help="Client processes that share the sessions, each on a core and with a "
            "witness log of its own. Default: the workload's.",
        ),
    ] = None
    rate: Annotated[
        float | None,
        Flag(
            "--rate",
            type=Number(0, limits.RATE_MAX),
            metavar="N",
            help="Commits per second of all sessions together; 0: no limit. Default: "
            "the workload's.",
        ),
    ] = None
    ramp: Annotated[
        float | None,
        Flag(
            "--ramp",
            type=Number(0, limits.RAMP_S_MAX),
            metavar="S",
            help="Seconds over which the sessions start, one after the other. Default: "
            "the workload's.",
        ),
    ] = None

    rows_before: Annotated[
        int | None,
        Flag(
            "--rows-before",
            type=click.IntRange(0, limits.ROWS_BEFORE_MAX),
            metavar="N",
            help="Rows that each table must hold before the load; what is missing is "
            "filled in. Default: the workload's.",
        ),
    ] = None
    readers: Annotated[
        int | None,
        Flag(
            "--readers",
            type=click.IntRange(0, limits.READERS_MAX),
            metavar="N",
            help="Connections that read the newest rows meanwhile, so that rows that "
            "were seen and then lost are counted. Default: the workload's.",
        ),
    ] = None

    def paced(self, workload: Workload) -> Workload:
        """Return *workload* with what is given here in the place of its own."""
        return workload.with_options(
            rate=self.rate,
            ramp_s=self.ramp,
            processes=self.processes,
            rows_before=self.rows_before,
            readers=self.readers,
        )


@dataclass(frozen=True)
class LoadOptions(EntryOptions, WorkloadOptions):
    """What the sessions do, and how long they wait for the server and the witness."""

    section = "Load"

    seed: Annotated[
        int | None,
        Flag(
            "--seed",
            type=SEED,
            metavar="N",
            help="Decides the moment of the cut and the size of each row; their bytes "
            "are new in each run. Default: random.",
        ),
    ] = None
    load_workers: Annotated[
        str,
        Flag(
            "--load-workers",
            metavar="ADDRESS",
            help="The Dask scheduler, tcp://HOST:PORT or tls://HOST:PORT, on whose "
            "workers the sessions run, shared among them instead of by --processes. "
            "Each worker needs this dbcheck, the password and access to the witness.",
        ),
    ] = ""
    silence: Annotated[
        float,
        Flag(
            "--silence",
            type=SECONDS,
            show_default=True,
            metavar="S",
            help="Seconds without any reply after which the server counts as gone.",
        ),
    ] = limits.SILENCE_S
    window: Annotated[
        int,
        Flag(
            "--window",
            type=click.IntRange(1),
            show_default=True,
            metavar="N",
            help="Most acks of a process that may wait for the witness; at this number "
            "its sessions wait.",
        ),
    ] = limits.WINDOW_ACKS
    lockstep: Annotated[
        bool,
        Flag(
            "--lockstep",
            is_flag=True,
            help="Each session waits until the witness has its last ack.",
        ),
    ] = False

    @property
    def scheduler(self) -> str:
        """Address of the Dask scheduler, "" without one; raise UsageError."""
        if not self.load_workers:
            return ""
        if self.processes is not None:
            raise UsageError(
                "--processes and --load-workers are both given",
                id=ErrorId.OPTIONS_CONFLICT,
                hint="Leave --processes out: each worker runs one process of the load.",
            )
        return dask.require_address("--load-workers", self.load_workers)

    @property
    def limits(self) -> WindowLimits:
        """How far the witness may lag."""
        return WindowLimits(acks=self.window, lockstep=self.lockstep)

    def require_beside(self, name: str) -> None:
        """Accept each flag: what is given wins over the inventory."""

    def applied(self, entry: Entry) -> Entry:
        """Return *entry* with the workload, the sessions and the silence given here."""
        given = self.given
        return replace(
            entry,
            workload=self.workload if "workload" in given else entry.workload,
            sessions=self.sessions if "sessions" in given else entry.sessions,
            silence_s=self.silence if "silence" in given else entry.silence_s,
        )
