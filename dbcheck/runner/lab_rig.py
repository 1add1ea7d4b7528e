"""The rig of a lab: for cycles, for recording a load and replaying one."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import UsageError
from dbcheck.cycle.host import describe_drive_server
from dbcheck.cycle.rig import Limits, Rig
from dbcheck.engines.registry import open_engine
from dbcheck.explore.folder import Exploration
from dbcheck.explore.opened import Opened
from dbcheck.hosts.host import TargetHost, open_host
from dbcheck.lab.lab import Lab
from dbcheck.lab.switch import LabRestarter, start_server
from dbcheck.model.cut import PowerScope
from dbcheck.ports.power import PowerSwitch
from dbcheck.ports.site import Node, Restarter
from dbcheck.power.driveonly import DriveOnlySwitch
from dbcheck.power.scope import DriveScope
from dbcheck.report.console import make_progress_console
from dbcheck.report.progress import PlainProgress
from dbcheck.site.single import SingleServer
from dbcheck.witness.log import FrameLogReader
from dbcheck.witness.url import open_witness
from dbcheck.witness.window import WindowLimits

_NO_RUNS_FOLDER = Path()  # for a rig that stores no run
# More than the lab itself waits; a state that recovers for longer is INCONCLUSIVE.
_RETURN_S = 10


def find_lab_host(name: str) -> TargetHost:
    """Return the host of the lab *name*; raise LabError if there is none."""
    return _make_host(Lab.find(name))


def _make_host(lab: Lab) -> TargetHost:
    return open_host(lab.host_url, lab.ssh)


def find_lab_restarter(name: str) -> Restarter:
    """Return the restarter of the lab *name*'s server; the lab is not looked up yet."""
    return LabRestarter(name)


def join_lab(rig: Rig, name: str) -> Rig:
    """Return *rig* with the spec and the server log of the lab *name* that cuts it.

    Raise UsageError if the target is not that lab's server.
    """
    lab = Lab.find(name)
    node = rig.site.writer
    if node.engine.target != lab.target_url:
        raise UsageError(
            f"lab {lab.name} has another target, {lab.target_url}",
            id=ErrorId.LAB_HAS_OTHER_TARGET,
            hint="Give that target, or another switch.",
        )
    node = replace(node, log_path=node.log_path or lab.log_path)
    return replace(rig, site=rig.site.with_writer(node), lab=lab.spec.to_values())


def scope_lab_switch(switch: PowerSwitch, name: str, wanted: str) -> PowerSwitch:
    """Return the lab *name*'s switch, for its drives alone if its spec says so.

    wanted: what a user named; raise UsageError if that is "drive" and not true.
    """
    lab = Lab.find(name)
    if wanted == PowerScope.DRIVE.value and lab.spec.power_scope != wanted:
        raise UsageError(
            f"lab {lab.name} cuts its whole host, not its drive alone",
            id=ErrorId.LAB_POWER_SCOPE_DIFFERS,
            hint="Start it with --power-scope drive, or remove dbcheck_power_scope.",
        )
    return _scope_switch(switch, lab)


def _scope_switch(switch: PowerSwitch, lab: Lab) -> PowerSwitch:
    """Return the switch that the lab's spec asks for: *switch*, or drives alone.

    The host's agent does on the lab what it does on any host, except that the lab
    starts the server.
    """
    if lab.spec.power_scope != PowerScope.DRIVE.value:
        return switch
    engine = open_engine(lab.target_url, lab.password)
    server = describe_drive_server(engine, partial(start_server, lab.name))
    scope = DriveScope(lab.drives, (), ())
    return DriveOnlySwitch(
        switch, _make_host(lab), scope, server, gone_s=0, notes=str(lab.folder)
    )


def make_lab_node(lab: Lab, power: PowerSwitch | None = None) -> Node:
    """Return the server of *lab*, with its switch and its host.

    power: the switch to use, None for a new one.
    """
    return Node(
        engine=open_engine(lab.target_url, lab.password),
        power=_scope_switch(power or lab.switch(), lab),
        host=_make_host(lab),
        log_path=lab.log_path,
        restarter=LabRestarter(lab.name),
    )


def make_lab_rig(
    lab: Lab,
    progress: PlainProgress,
    runs: Path,
    limits: Limits,
    power: PowerSwitch | None = None,
) -> Rig:
    """Return the rig of *lab*: its server, witness, switch and host.

    power: the switch to use, None for a new one.
    """
    return Rig(
        site=SingleServer(make_lab_node(lab, power)),
        witness=open_witness(
            lab.witness_url,
            limits=WindowLimits(acks=limits.window_acks),
            volatile=True,
            options=lab.ssh,
        ),
        reader=FrameLogReader(),
        listener=progress,
        runs=runs,
        limits=limits,
        lab=lab.spec.to_values(),
    )


def make_recording_rig(
    lab: Lab, view: PlainProgress, runs: Path = _NO_RUNS_FOLDER
) -> Rig:
    """Return the rig of a lab that records or replays, which asks no host."""
    rig = make_lab_rig(lab, view, runs, Limits(return_s=_RETURN_S), lab.switch())
    node = replace(rig.site.writer, host=None, log_path="")
    return replace(rig, site=rig.site.with_writer(node))


def open_exploration(folder: Exploration) -> Opened:
    """Open a stored exploration; reading its states shows no progress."""
    unheard = PlainProgress(make_progress_console(), frozenset())
    return Opened(folder, lambda lab: make_recording_rig(lab, unheard))
