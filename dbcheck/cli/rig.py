"""Puts a rig together: the only place that knows the concrete classes."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

from dbcheck.campaign.rig import Limits, Rig
from dbcheck.core.values import Json
from dbcheck.engines.registry import open_engine
from dbcheck.errors import UsageError
from dbcheck.hosts.host import TargetHost, open_host
from dbcheck.inventory.entry import Entry
from dbcheck.lab.lab import Lab
from dbcheck.lab.switch import LabSwitch
from dbcheck.ports.engine import Engine
from dbcheck.ports.power import PowerSwitch
from dbcheck.ports.witness import Witness
from dbcheck.power import consent
from dbcheck.power.kinds.lab import LabPlan
from dbcheck.power.reached import recall
from dbcheck.report.progress import PlainProgress
from dbcheck.secret import Secret, variable
from dbcheck.witness.log import FrameLogReader
from dbcheck.witness.url import open_witness
from dbcheck.witness.window import WindowLimits

PASSWORD_VARIABLE = "DBCHECK_PASSWORD"


def engine(target: str, secret: Secret | None) -> Engine:
    """Return the engine of *target*.

    Without a *secret* the password is in DBCHECK_PASSWORD, or where the driver looks.
    """
    password = secret.read() if secret else variable(PASSWORD_VARIABLE)
    return open_engine(target, password)


def power_switch(entry: Entry, ask: Callable[[str], None]) -> PowerSwitch:
    """Return the switch that *entry* names; raise UsageError if it cannot be one.

    ask: shows a text to the human who cuts.
    """
    host = power_host(entry) if entry.power.needs_host else None
    return entry.power.open(host, ask)


def power_host(entry: Entry) -> TargetHost | None:
    """Return the host that is to be cut, None if it is not to be asked."""
    if not entry.host:
        return None
    return open_host(entry.host, identity_file=entry.host_identity)


def entry_witness(
    entry: Entry, window: WindowLimits, *, accept_new_host_key: bool | None = None
) -> Witness:
    """Return the witness of *entry*; nothing is connected yet; the caller closes it."""
    if not entry.witness:
        where = f"host {entry.name}: dbcheck_witness" if entry.name else "--witness"
        raise UsageError(f"{where} is missing", hint="Say where acks are to be logged.")
    return open_witness(
        entry.witness,
        accept_new_host_key=accept_new_host_key,
        identity_file=entry.witness_identity,
        known_hosts=entry.witness_known_hosts,
        limits=window,
    )


def entry_host(entry: Entry) -> TargetHost | None:
    """Return the host that *entry* names, None if it is not to be asked."""
    if isinstance(entry.power, LabPlan) and not entry.host:
        return _host_of(Lab.find(entry.power.name))
    return power_host(entry)


def entry_rig(
    entry: Entry,
    the_witness: Witness,
    progress: PlainProgress,
    runs: Path,
    window: WindowLimits,
) -> Rig:
    """Return the rig that *entry* describes; raise UsageError if it cannot be used."""
    host = entry_host(entry)
    limits = Limits(
        silence_s=entry.silence_s, return_s=entry.return_s, window_acks=window.acks
    )
    rig = real_rig(
        engine(entry.target, entry.password),
        the_witness,
        power_switch(entry, progress.ask),
        progress,
        runs,
        limits,
        host,
        entry.server_log,
    )
    return replace(
        rig,
        restore_command=entry.restore_command,
        reached=recall(entry.wiring),
        class_assumed=entry.power.class_assumed,
        before_load=partial(consent.remember, entry.wiring),
    )


def real_rig(
    the_engine: Engine,
    the_witness: Witness,
    power: PowerSwitch,
    progress: PlainProgress,
    runs: Path,
    limits: Limits,
    host: TargetHost | None = None,
    log_path: str = "",
) -> Rig:
    """Return a rig of a target that dbcheck did not start.

    With the switch of a lab the target must be that lab's server: only a lab may
    have its witness on the same host.
    """
    spec: Json = {}
    if isinstance(power, LabSwitch):
        lab = Lab.find(power.name)
        if the_engine.target != lab.target_url:
            raise UsageError(
                f"lab {lab.name} has another target, {lab.target_url}",
                hint="Give that one, or another switch.",
            )
        spec = lab.spec.to_values()
        host, log_path = host or _host_of(lab), log_path or lab.log_path
    return Rig(
        the_engine,
        the_witness,
        power,
        FrameLogReader(),
        progress,
        runs,
        limits,
        spec,
        host,
        log_path,
    )


def _host_of(lab: Lab) -> TargetHost:
    return open_host(
        lab.host_url,
        identity_file=lab.identity_file,
        known_hosts=lab.known_hosts,
        config_file=Path(os.devnull),
    )


def lab_rig(lab: Lab, progress: PlainProgress, runs: Path, limits: Limits) -> Rig:
    """Return the rig that *lab* is."""
    return Rig(
        engine=open_engine(lab.target_url, lab.password),
        witness=open_witness(
            lab.witness_url,
            identity_file=lab.identity_file,
            known_hosts=lab.known_hosts,
            limits=WindowLimits(acks=limits.window_acks),
            volatile=True,
            config_file=Path(os.devnull),  # the user's own is not for this sshd
        ),
        power=lab.switch(),
        reader=FrameLogReader(),
        listener=progress,
        runs=runs,
        limits=limits,
        lab=lab.spec.to_values(),
        host=_host_of(lab),
        log_path=lab.log_path,
    )
