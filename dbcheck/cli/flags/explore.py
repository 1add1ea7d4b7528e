"""The flags that describe the lab whose drives are recorded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import click

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import UsageError
from dbcheck.cli.flags.groups import Flag, FlagsOf, Group
from dbcheck.cli.flags.lab import ServerOptions, pairs_of
from dbcheck.cli.flags.values import SECONDS
from dbcheck.lab.spec import ENGINES, DriveSpec, LabSpec

_SERVER, _LAB = ServerOptions.flags(), FlagsOf(LabSpec).flags()
_FLUSH = FlagsOf(DriveSpec).flags()["flush_ms"]
_DEFAULT = LabSpec(ENGINES[0])
HONEST, LYING = "honest", "lying"


@dataclass(frozen=True)
class RecordOptions(Group):
    """The lab whose drives are recorded, and for how long."""

    section = "Recording"

    engine: Annotated[
        str | None,
        Flag("--engine", type=click.Choice(ENGINES), help="The server to run."),
    ] = None
    filesystem: Annotated[str, _LAB["filesystem"]] = _DEFAULT.filesystem
    mount_options: Annotated[str, _LAB["mount_options"]] = _DEFAULT.mount_options
    log_drive: Annotated[bool, _LAB["log_drive"]] = _DEFAULT.log_drive
    write_cache: Annotated[str, _LAB["write_cache"]] = _DEFAULT.write_cache
    personality: Annotated[
        str,
        Flag(
            "--drive",
            type=click.Choice((HONEST, LYING)),
            show_default=True,
            help="honest: a flush makes stable what was written before it; lying: it "
            "makes nothing stable.",
        ),
    ] = HONEST
    flush_ms: Annotated[float, _FLUSH] = _DEFAULT.drive.flush_ms
    settings: Annotated[tuple[str, ...], _SERVER["settings"]] = ()
    load_s: Annotated[
        float,
        Flag(
            "--load-s",
            metavar="S",
            type=SECONDS,
            show_default=True,
            help="Seconds of load to record.",
        ),
    ] = 1.5

    def spec(self, seed: int) -> LabSpec:
        """Return the lab; raise UsageError if it is invalid, or no server is named."""
        if self.engine is None:
            raise UsageError(
                "neither --engine nor the folder of an exploration is given",
                id=ErrorId.ONE_OF_OPTIONS_NEEDED,
                hint="Give --engine to record a load, or the folder to continue with.",
            )
        return LabSpec(
            engine=self.engine,
            filesystem=self.filesystem,
            mount_options=self.mount_options,
            write_cache=self.write_cache,
            log_drive=self.log_drive,
            drive=DriveSpec(
                personality=self.personality, flush_ms=self.flush_ms, seed=seed
            ),
            settings=pairs_of(self.settings),
        )
