"""The flags that describe a lab, and a lab whose drives are recorded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

import click

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import UsageError
from dbcheck.base.setting import list_flags
from dbcheck.cli.flags.groups import SECONDS, SEED, Flag, FlagsOf, Group
from dbcheck.lab.clusters.spec import NODES_MAX, ClusterSpec
from dbcheck.lab.lab import choose_lab_cut
from dbcheck.lab.spec import ENGINES, LAB_CUTS, DriveSpec, LabSpec

_AUTO = "auto"
# A setting of a cluster, the one that it needs, its flag, and why.
_PARTING = ("partition_after_s", "--partition-after")
_OF_FAULTS = (
    ("pause_s", "pause_after_s", "--pause-after", "--pause-s: no node is paused"),
    ("partition", *_PARTING, "--partition: no node is cut off"),
    ("partition_s", *_PARTING, "--partition-s: no node is cut off"),
)


@dataclass(frozen=True)
class ServerOptions(Group):
    """The server of a lab, and what is cut."""

    section = "Lab"

    engine: Annotated[
        str, Flag("--engine", type=click.Choice(ENGINES), help="The server to run.")
    ]
    cut: Annotated[
        str,
        Flag(
            "--cut",
            type=click.Choice((_AUTO, *LAB_CUTS)),
            show_default=True,
            help="What is cut: the power of a virtual drive, or only the server "
            "process. auto: the drive if this machine can run one.",
        ),
    ] = _AUTO
    settings: Annotated[
        tuple[str, ...],
        Flag(
            "--setting",
            multiple=True,
            metavar="NAME=VALUE",
            help="A server setting, e.g. innodb_flush_log_at_trx_commit=2; may be "
            "repeated.",
        ),
    ] = ()
    seed: Annotated[
        int | None,
        Flag(
            "--seed",
            type=SEED,
            metavar="N",
            help="Decides rows, moments, and what a drive loses. Default: random.",
        ),
    ] = None


@dataclass(frozen=True)
class StorageOptions(Group):
    """The virtual drive of a lab, and the filesystem on it."""

    section = "Virtual drive"

    of_lab: Annotated[Mapping[str, Any], FlagsOf(LabSpec)] = field(default_factory=dict)
    of_drive: Annotated[Mapping[str, Any], FlagsOf(DriveSpec)] = field(
        default_factory=dict
    )


@dataclass(frozen=True)
class ClusterOptions(Group):
    """Several servers, one of which writes."""

    section = "Cluster"

    nodes: Annotated[
        int,
        Flag(
            "--nodes",
            type=click.IntRange(1, NODES_MAX),
            metavar="N",
            show_default=True,
            help="Number of servers, each on a virtual drive of its own: the first "
            "takes the load, the others follow it or are one cluster with it.",
        ),
    ] = 1
    settings: Annotated[Mapping[str, Any], FlagsOf(ClusterSpec)] = field(
        default_factory=dict
    )

    def spec(self) -> ClusterSpec | None:
        """Return the cluster, None of a single server; raise UsageError."""
        for name, needed, flag, what in _OF_FAULTS:
            if name in self.settings and not self.settings.get(needed):
                raise UsageError(
                    what,
                    id=ErrorId.OPTION_NEEDS_ANOTHER,
                    hint=f"Add {flag}.",
                )
        if self.nodes > 1:
            return ClusterSpec(self.nodes, **self.settings)
        given = [flag for flag in self.flags_given() if flag != "--nodes"]
        if given:
            raise UsageError(
                f"a single server cannot be run with {', '.join(given)}",
                id=ErrorId.OPTION_NEEDS_ANOTHER,
                hint="Add --nodes 2, or 3 for galera and group-replication.",
            )
        return None


def parse_pairs(settings: Sequence[str]) -> dict[str, str]:
    """Return the values of --setting by their names; raise UsageError."""
    pairs = [setting.partition("=") for setting in settings]
    wrong = [name for name, equals, _ in pairs if not (name and equals)]
    if wrong:
        raise UsageError(
            f"--setting {wrong[0]} has no value",
            id=ErrorId.SETTING_INVALID,
            hint="Give NAME=VALUE.",
        )
    return {name: value for name, _, value in pairs}


def make_lab_spec(
    server: ServerOptions, storage: StorageOptions, seed: int, *more: str
) -> LabSpec:
    """Return the lab that the options describe; raise UsageError if it is invalid.

    more: other flags that were given and need a virtual drive.
    """
    settings = parse_pairs(server.settings)
    cut = choose_lab_cut(server.engine) if server.cut == _AUTO else server.cut
    if cut == "process":
        _refuse([*storage.flags_given(), *more])
    return LabSpec(
        engine=server.engine,
        cut=cut,
        drive=DriveSpec(seed=seed, **storage.of_drive),
        settings=settings,
        **storage.of_lab,
    )


def list_lab_flags(spec: LabSpec) -> list[str]:
    """Return the flags that describe *spec* to `lab run`, without those of defaults.

    The seed is left out, and so is the drive's size, which no flag sets.
    """
    flags = ["--engine", spec.engine, "--cut", spec.cut]
    for name, value in spec.settings.items():
        flags += ["--setting", f"{name}={value}"]
    if spec.cut != "drive":
        return flags
    flags += list_flags(spec, LabSpec(spec.engine))
    return flags + list_flags(spec.drive, DriveSpec())


def list_cluster_flags(spec: ClusterSpec) -> list[str]:
    """Return the flags that describe *spec* to `lab run`, without those of defaults."""
    return ["--nodes", str(spec.nodes), *list_flags(spec, ClusterSpec())]


def _refuse(flags: list[str]) -> None:
    """Raise UsageError if there are any: they are for a virtual drive only."""
    if flags:
        raise UsageError(
            f"{', '.join(flags)} needs a virtual drive, which --cut process does not "
            "have",
            id=ErrorId.DRIVE_CUT_NEEDED,
            hint="Leave it out, or use --cut drive.",
        )


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
            settings=parse_pairs(self.settings),
        )
