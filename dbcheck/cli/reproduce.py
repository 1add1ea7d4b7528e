"""The commands that judge a stored run again, and that make another one like it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import msgspec

from dbcheck.base.errors import UsageError
from dbcheck.base.setting import flags_of
from dbcheck.config import workload_file
from dbcheck.cycle.outcome import Outcome
from dbcheck.model.records import Manifest
from dbcheck.report.subject import Step
from dbcheck.rows.workload import Workload


def steps_of(outcome: Outcome) -> tuple[Step, ...]:
    """Return how to check a judged run, and how to repeat it.

    The second only of this user's own: another's manifest would choose the server, or
    settings that run programs, and somebody might copy the command.
    """
    manifest, folder = outcome.manifest, str(outcome.run.path)
    again = ["dbcheck", "reconcile", folder, "--offline"]
    found = [Step("Judge the stored run again; no server is needed", shlex.join(again))]
    more = ["--twice"] if outcome.after.again is not None else []
    if outcome.run.is_own() and (repeat := _repeat(manifest, more)):
        found.append(repeat)
    return tuple(found)


def _repeat(manifest: Manifest, more: list[str]) -> Step | None:
    load = _load_flags(manifest)
    if not manifest.lab:
        command = ["dbcheck", "run", "--target", manifest.writer.target]
        command += ["--witness", manifest.witness, "--seed", str(manifest.seed)]
        command += ["--power", manifest.writer.power.value, *load, *more]
        what = (
            "Make another run with the same workload and seed; add the flags of the"
            " power switch, or name the host in an inventory"
        )
        return Step(what, shlex.join(command))
    lab = _lab_flags(manifest.lab)
    if lab is None:
        return None
    flags, base = lab
    cycles = manifest.seed - base + 1  # cycle n of a lab has its seed + n
    command = ["dbcheck", "lab", "run", *flags, "--seed", str(base)]
    command += ["--cycles", str(cycles)] if cycles > 1 else []
    control = bool(manifest.controls) or manifest.control
    command += ["--control"] if control else []
    last = f"; the last of {cycles} cycles is this one" if cycles > 1 else ""
    what = f"Make another run in a lab like this one, with the same seed{last}"
    return Step(what, shlex.join([*command, *load, *more])) if cycles > 0 else None


def _load_flags(manifest: Manifest) -> list[str]:
    """Return the flags of the load: all that are not the named workload's own.

    The number of sessions always, which an inventory may give as well.
    """
    workload = manifest.workload
    try:
        named = replace(workload_file.load(workload.name), sessions=0)
    except UsageError:  # a file of the user's
        named = Workload("", "", workload.plan, sessions=0, processes=0)
    return ["--workload", workload.name, *flags_of(workload, named)]


def _lab_flags(lab: Mapping[str, Any]) -> tuple[list[str], int] | None:
    """Return the flags that describe a lab, and its seed; None if it is no lab's spec.

    A stored spec may lack some of it, and a forged one hold anything.
    """
    from dbcheck.cli.flags.lab import flags_of_cluster, flags_of_lab
    from dbcheck.lab.clusters.spec import ClusterSpec
    from dbcheck.lab.spec import LabSpec

    flags = []
    try:
        spec = msgspec.convert(lab, LabSpec)
        if "cluster" in lab:
            flags = flags_of_cluster(msgspec.convert(lab["cluster"], ClusterSpec))
    except (UsageError, msgspec.ValidationError):
        return None
    return [*flags_of_lab(spec), *flags], spec.drive.seed
