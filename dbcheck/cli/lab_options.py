"""The flags that describe a lab."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import click

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import UsageError
from dbcheck.cli.groups import Flag, Group, Number
from dbcheck.cli.options import SEED
from dbcheck.lab.clusterspec import (
    BY_DBCHECK,
    NODES_MAX,
    PATRONI,
    TOPOLOGIES,
    ClusterSpec,
)
from dbcheck.lab.lab import best_rung
from dbcheck.lab.spec import (
    ENGINES,
    FILESYSTEMS,
    PERSONALITIES,
    POWER_SCOPES,
    RUNGS,
    SURVIVORS,
    TIME_MAX,
    WRITE_CACHES,
    DriveSpec,
    LabSpec,
)
from dbcheck.model.cluster import STAGGER_S_MAX, Promise

_AUTO = "auto"
_COST = Number(0, TIME_MAX)
_COUNT = click.IntRange(min=0)
_DRIVE = DriveSpec()
_LAB = LabSpec(ENGINES[0])
_CLUSTER = ClusterSpec()


@dataclass(frozen=True)
class ServerOptions(Group):
    """The server of a lab, and what is cut."""

    section = "Lab"

    engine: Annotated[
        str, Flag("--engine", type=click.Choice(ENGINES), help="The server to run.")
    ]
    rung: Annotated[
        str,
        Flag(
            "--rung",
            type=click.Choice((_AUTO, *RUNGS)),
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

    filesystem: Annotated[
        str,
        Flag(
            "--fs",
            type=click.Choice(FILESYSTEMS),
            show_default=True,
            help="The filesystem on the drive.",
        ),
    ] = _LAB.filesystem
    mount_options: Annotated[
        str,
        Flag(
            "--mount-options",
            metavar="OPTIONS",
            help="How to mount it, as mount -o takes it, e.g. barrier=0.",
        ),
    ] = _LAB.mount_options
    log_drive: Annotated[
        bool,
        Flag(
            "--log-drive",
            is_flag=True,
            help="Put the server's log (WAL, redo log) on a second such drive, which "
            "has a cache of its own.",
        ),
    ] = _LAB.log_drive
    power_scope: Annotated[
        str,
        Flag(
            "--power-scope",
            type=click.Choice(POWER_SCOPES),
            show_default=True,
            help="What loses its power: the host, or drive, the drive alone, under a "
            "server that keeps running.",
        ),
    ] = _LAB.power_scope
    write_cache: Annotated[
        str,
        Flag(
            "--write-cache",
            type=click.Choice(WRITE_CACHES),
            show_default=True,
            help="What the kernel assumes of the drive's cache (queue/write_cache); "
            "with write through it sends no flushes.",
        ),
    ] = _LAB.write_cache
    personality: Annotated[
        str,
        Flag(
            "--drive",
            type=click.Choice(PERSONALITIES),
            show_default=True,
            help="How the drive handles a flush: as promised, not at all (lying), one "
            "of the two at each power-on (fickle), not at all from some moment on "
            "(failing), for the newest writes only (reordering); write-through needs "
            "none.",
        ),
    ] = _DRIVE.personality
    lie_fraction: Annotated[
        float,
        Flag(
            "--lie-fraction",
            metavar="SHARE",
            type=Number(0, 1),
            show_default=True,
            help="Share of its power-ons at which a fickle drive lies.",
        ),
    ] = _DRIVE.lie_fraction
    honest_flushes: Annotated[
        int,
        Flag(
            "--honest-flushes",
            metavar="N",
            type=_COUNT,
            show_default=True,
            help="Flushes that a failing drive honours after each start of the server, "
            "before it lies.",
        ),
    ] = _DRIVE.honest_flushes
    newest_bytes: Annotated[
        int,
        Flag(
            "--newest-bytes",
            metavar="BYTES",
            type=_COUNT,
            show_default=True,
            help="What a reordering drive flushes of the writes since the last flush: "
            "the newest of so many bytes.",
        ),
    ] = _DRIVE.newest_bytes
    lost_above: Annotated[
        int,
        Flag(
            "--lost-above",
            metavar="BYTES",
            type=_COUNT,
            help="A flush leaves out writes of more than so many bytes, also on a "
            "write-through drive.",
        ),
    ] = _DRIVE.lost_above_bytes
    tear_at: Annotated[
        int,
        Flag(
            "--tear-at",
            metavar="BYTES",
            type=_COUNT,
            help="A flush covers of each write only the first of the drive's blocks of "
            "so many bytes, e.g. 512, 4096 or 16384.",
        ),
    ] = _DRIVE.tear_bytes
    forget_at: Annotated[
        int,
        Flag(
            "--forget-at",
            metavar="BYTES",
            type=_COUNT,
            help="Where the range begins that --forget names.",
        ),
    ] = _DRIVE.forget_at_bytes
    forget: Annotated[
        int,
        Flag(
            "--forget",
            metavar="BYTES",
            type=_COUNT,
            help="After each cut so many bytes of the drive read as zeros, flushed or "
            "not.",
        ),
    ] = _DRIVE.forget_bytes
    flush_ms: Annotated[
        float,
        Flag(
            "--flush-ms",
            metavar="MS",
            type=_COST,
            show_default=True,
            help="Milliseconds that a flush takes, but on a lying or write-through "
            "drive.",
        ),
    ] = _DRIVE.flush_ms
    write_ms: Annotated[
        float,
        Flag(
            "--write-ms",
            metavar="MS",
            type=_COST,
            show_default=True,
            help="Milliseconds that a write takes.",
        ),
    ] = _DRIVE.write_ms
    destage_s: Annotated[
        float,
        Flag(
            "--destage-s",
            metavar="S",
            type=_COST,
            show_default=True,
            help="Seconds after which a cached write is stable; 0: never by itself.",
        ),
    ] = _DRIVE.destage_age_s
    cache_mib: Annotated[
        int,
        Flag(
            "--cache-mib",
            metavar="MIB",
            type=click.IntRange(1, 1024),
            show_default=True,
            help="Size of the drive's volatile cache, in MiB.",
        ),
    ] = _DRIVE.cache_bytes >> 20
    survivors: Annotated[
        str,
        Flag(
            "--survivors",
            type=click.Choice(SURVIVORS),
            show_default=True,
            help="What a cut leaves of the writes that were not flushed: nothing, all, "
            "the oldest (prefix), the newest (suffix), the oldest and a part of the "
            "next (torn), all but one, any whole writes, any pages of 16384 bytes, any "
            "blocks of 4096 bytes, any sectors of 512 bytes (random).",
        ),
    ] = _DRIVE.survivors

    def drive(self, seed: int) -> DriveSpec:
        """Return the drive; raise UsageError if it is invalid."""
        return DriveSpec(
            personality=self.personality,
            flush_ms=self.flush_ms,
            write_ms=self.write_ms,
            destage_age_s=self.destage_s,
            cache_bytes=self.cache_mib << 20,
            survivors=self.survivors,
            seed=seed,
            lie_fraction=self.lie_fraction,
            honest_flushes=self.honest_flushes,
            newest_bytes=self.newest_bytes,
            lost_above_bytes=self.lost_above,
            tear_bytes=self.tear_at,
            forget_at_bytes=self.forget_at,
            forget_bytes=self.forget,
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
    promise: Annotated[
        str,
        Flag(
            "--promise",
            type=click.Choice([each.value for each in Promise]),
            show_default=True,
            help="What the commits must survive. writer: a cut of the writer, which "
            "comes back. writer-gone: its loss, after which a standby takes over. all: "
            "a cut of all nodes. all-writer-gone: its loss in a cut of all nodes. "
            "Galera and Group Replication have writer-gone and all.",
        ),
    ] = _CLUSTER.promise
    topology: Annotated[
        str | None,
        Flag(
            "--topology",
            type=click.Choice(
                sorted({kind.value for kinds in TOPOLOGIES.values() for kind in kinds})
            ),
            help="How the servers are one cluster. Default: streaming of PostgreSQL, "
            "semi-sync of MySQL and MariaDB; galera is MariaDB Galera Cluster, "
            "group-replication MySQL Group Replication.",
        ),
    ] = None
    promoted_by: Annotated[
        str,
        Flag(
            "--promoted-by",
            type=click.Choice([BY_DBCHECK, PATRONI]),
            show_default=True,
            help="Who promotes a standby: dbcheck by SQL, or Patroni, which also "
            "decides which standby commits wait for. Patroni is for PostgreSQL, and "
            "needs root and `dbcheck lab fetch patroni`.",
        ),
    ] = _CLUSTER.promoted_by
    link_delay_ms: Annotated[
        float,
        Flag(
            "--link-delay-ms",
            metavar="MS",
            type=_COST,
            show_default=True,
            help="One-way delay, in ms, of all traffic between the writer and each "
            "standby.",
        ),
    ] = _CLUSTER.link_delay_ms
    link_down_after: Annotated[
        float,
        Flag(
            "--link-down-after",
            metavar="S",
            type=_COST,
            help="Take the replication between the writer and the standbys down after "
            "so many seconds of load. Patroni and etcd still reach each other.",
        ),
    ] = _CLUSTER.link_down_after_s
    pause_after: Annotated[
        float,
        Flag(
            "--pause-after",
            metavar="S",
            type=_COST,
            help="Pause a node other than the writer (SIGSTOP) after so many seconds "
            "of load. The seed draws which. The cut comes after the pause.",
        ),
    ] = _CLUSTER.pause_after_s
    pause_s: Annotated[
        float,
        Flag(
            "--pause-s",
            metavar="S",
            type=_COST,
            show_default=True,
            help="How long --pause-after pauses it. In a lab, a group expels a silent "
            "node after 5 s.",
        ),
    ] = _CLUSTER.pause_s
    stagger: Annotated[
        float,
        Flag(
            "--stagger",
            metavar="S",
            type=click.FloatRange(0, STAGGER_S_MAX),
            help="--promise all: cut the writer first and the others within so many "
            "seconds, in an order that the seed draws. Default: all at one moment.",
        ),
    ] = _CLUSTER.stagger_s
    rejoin: Annotated[
        bool,
        Flag(
            "--rejoin",
            is_flag=True,
            help="--promise writer-gone or all-writer-gone, no group: once all was "
            "read, have the other nodes follow the new writer without copying its data "
            "(PostgreSQL: pg_rewind), and compare their rows.",
        ),
    ] = _CLUSTER.rejoin

    def spec(self) -> ClusterSpec | None:
        """Return the cluster, None of a single server; raise UsageError."""
        if "--pause-s" in self.flags_given() and not self.pause_after:
            raise UsageError(
                "--pause-s says how long a node is paused, and none is",
                id=ErrorId.OPTION_NEEDS_ANOTHER,
                hint="Add --pause-after.",
            )
        if self.nodes > 1:
            return ClusterSpec(
                self.nodes,
                self.promise,
                self.topology or _CLUSTER.topology,
                self.promoted_by,
                self.link_delay_ms,
                self.link_down_after,
                self.pause_after,
                self.pause_s,
                self.stagger,
                self.rejoin,
            )
        given = [flag for flag in self.flags_given() if flag != "--nodes"]
        if given:
            raise UsageError(
                f"a single server cannot be run with {', '.join(given)}",
                id=ErrorId.OPTION_NEEDS_ANOTHER,
                hint="Add --nodes 2, or 3 for galera and group-replication.",
            )
        return None


def pairs_of(settings: Sequence[str]) -> dict[str, str]:
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


def lab_spec(
    server: ServerOptions, storage: StorageOptions, seed: int, *more: str
) -> LabSpec:
    """Return the lab that the options describe; raise UsageError if it is invalid.

    more: other flags that were given and need a virtual drive.
    """
    settings = pairs_of(server.settings)
    rung = best_rung(server.engine) if server.rung == _AUTO else server.rung
    if rung == "process":
        _refuse([*storage.flags_given(), *more])
    return LabSpec(
        engine=server.engine,
        rung=rung,
        filesystem=storage.filesystem,
        mount_options=storage.mount_options,
        write_cache=storage.write_cache,
        log_drive=storage.log_drive,
        power_scope=storage.power_scope,
        drive=storage.drive(seed),
        settings=settings,
    )


def flags_of(spec: LabSpec) -> list[str]:
    """Return the flags that describe *spec* to `lab run`, without those of defaults.

    The seed is left out, and so is the drive's size, which no flag sets.
    """
    drive = spec.drive
    storage = StorageOptions(
        filesystem=spec.filesystem,
        mount_options=spec.mount_options,
        log_drive=spec.log_drive,
        power_scope=spec.power_scope,
        write_cache=spec.write_cache,
        personality=drive.personality,
        lie_fraction=drive.lie_fraction,
        honest_flushes=drive.honest_flushes,
        newest_bytes=drive.newest_bytes,
        lost_above=drive.lost_above_bytes,
        tear_at=drive.tear_bytes,
        forget_at=drive.forget_at_bytes,
        forget=drive.forget_bytes,
        flush_ms=drive.flush_ms,
        write_ms=drive.write_ms,
        destage_s=drive.destage_age_s,
        cache_mib=drive.cache_bytes >> 20,
        survivors=drive.survivors,
    )
    flags = ["--engine", spec.engine, "--rung", spec.rung]
    for name, value in spec.settings.items():
        flags += ["--setting", f"{name}={value}"]
    return flags + (storage.changed() if spec.rung == "drive" else [])


def flags_of_cluster(spec: ClusterSpec) -> list[str]:
    """Return the flags that describe *spec* to `lab run`, without those of defaults."""
    return ClusterOptions(
        nodes=spec.nodes,
        promise=spec.promise,
        topology=spec.topology or None,
        promoted_by=spec.promoted_by,
        link_delay_ms=spec.link_delay_ms,
        link_down_after=spec.link_down_after_s,
        pause_after=spec.pause_after_s,
        pause_s=spec.pause_s,
        stagger=spec.stagger_s,
        rejoin=spec.rejoin,
    ).changed()


def _refuse(flags: list[str]) -> None:
    """Raise UsageError if there are any: they are for a virtual drive only."""
    if flags:
        raise UsageError(
            f"{', '.join(flags)} needs a virtual drive, which --rung process does not "
            "have",
            id=ErrorId.DRIVE_RUNG_NEEDED,
            hint="Leave it out, or use --rung drive.",
        )
