"""The flags that say what the sessions do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Any

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import UsageError
from dbcheck.cli.flags.groups import SEED, Flag, FlagsOf, Group
from dbcheck.cli.flags.shared import complete_names
from dbcheck.cli.flags.target import EntryOptions
from dbcheck.config import workload_file
from dbcheck.config.files import list_workload_names
from dbcheck.config.target import TargetSettings
from dbcheck.load import dask_cluster
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
            shell_complete=complete_names(list_workload_names, or_file=True),
        ),
    ] = "insert"
    settings: Annotated[
        Mapping[str, Any], FlagsOf(Workload, default="the workload's")
    ] = field(default_factory=dict)

    def apply_to_workload(self, workload: Workload) -> Workload:
        """Return *workload* with the settings given here in the place of its own.

        Raise UsageError if one does not fit its plan.
        """
        return workload_file.change_workload(
            workload, self.settings, f"the workload {workload.name}"
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
            help="Decides the moment of the cut, or of the copy, and the size of each "
            "row; their bytes are new in each run. Default: random.",
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
    of_silence: Annotated[
        Mapping[str, Any], FlagsOf(TargetSettings, ("silence_s",))
    ] = field(default_factory=dict)
    of_window: Annotated[Mapping[str, Any], FlagsOf(WindowLimits)] = field(
        default_factory=dict
    )

    @property
    def scheduler(self) -> str:
        """Address of the Dask scheduler, "" without one; raise UsageError."""
        if not self.load_workers:
            return ""
        if "processes" in self.settings:
            raise UsageError(
                "--processes and --load-workers are both given",
                id=ErrorId.OPTIONS_CONFLICT,
                hint="Leave --processes out: each worker runs one process of the load.",
            )
        return dask_cluster.require_address("--load-workers", self.load_workers)

    @property
    def limits(self) -> WindowLimits:
        """The limits of the witness's lag."""
        return WindowLimits(**self.of_window)

    def require_beside(self, name: str) -> None:
        """Accept each flag: what is given wins over the inventory."""

    def applied(self, entry: Entry) -> Entry:
        """Return *entry* with the workload, the sessions and the silence given here."""
        return replace(
            EntryOptions.applied(self, entry),
            workload=self.workload if "workload" in self.given else entry.workload,
            sessions=self.settings.get("sessions", entry.sessions),
        )
