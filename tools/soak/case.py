"""Draws a lab, its load and its cut from a number, and the verdicts it may get."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from dbcheck.config import workload_file
from dbcheck.lab.spec import FILESYSTEMS, KEPT_WRITES, DriveSpec, LabSpec
from dbcheck.model.verdict import Verdict, format_count
from dbcheck.rows.workload import Workload

# What InnoDB's pages of 16 KiB survive of a cut: docs/findings.md says why no more.
_INNODB_SURVIVORS = ("none", "all", "prefix", "suffix", "torn")
# Appending to these would give every number another lab.
ENGINES = ("postgresql", "mariadb", "mysql")
_RELAXED = {
    "postgresql": {"synchronous_commit": "off"},
    "mariadb": {"innodb_flush_log_at_trx_commit": "2"},
    "mysql": {"innodb_flush_log_at_trx_commit": "2"},
}
_CUT_AFTER_S = ((0.8, 1.2), (1.5, 2.5), (2.5, 4.0))


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of storage or server.

    keeps: whether it keeps every commit; None if its drive decides that at each start.
    drive, lab: what differs from the defaults of DriveSpec and LabSpec.
    """

    name: str
    keeps: bool | None
    drive: Mapping[str, Any] = field(default_factory=dict)
    lab: Mapping[str, Any] = field(default_factory=dict)


# Honest ones come more often: a wrong FAIL is as rare as what would cause it.
KINDS = (
    Kind("honest drive", True),
    Kind("lying drive", False, {"personality": "lying"}),
    Kind("honest drive", True),
    Kind("write-through drive", True, {"personality": "write-through"}),
    Kind("fickle drive", None, {"personality": "fickle", "lie_fraction": 0.5}),
    Kind("honest drive", True),
    Kind("relaxed setting", False),
    Kind("flushes swallowed", False, lab={"write_cache": "write through"}),
)


@dataclass(frozen=True, slots=True)
class Case:
    """A lab, the load that runs in it, and how often it is cut."""

    number: int
    kind: Kind
    spec: LabSpec
    workload: Workload
    cuts: int

    @classmethod
    def of(cls, number: int) -> Case:
        """Draw; numbers in a row have every kind, engine and filesystem in turn."""
        draw = random.Random(number)
        kind = KINDS[number % len(KINDS)]
        engine = ENGINES[number // len(KINDS) % len(ENGINES)]
        turns = number // (len(KINDS) * len(ENGINES))
        filesystem = FILESYSTEMS[(turns + number) % len(FILESYSTEMS)]
        kept_writes = draw.choice(_kept_writes(kind, engine))
        drive = DriveSpec(kept_writes=kept_writes, seed=number, **kind.drive)
        lab = dict(kind.lab)
        if kind.name == "relaxed setting":
            lab["settings"] = _RELAXED[engine]
        chosen = workload_file.load(draw.choice(("insert", "insert", "registers")))
        chosen = chosen.with_sessions(draw.choice((2, 4, 8, 16)))
        chosen = replace(
            chosen,
            cut_after_s=draw.choice(_CUT_AFTER_S),
            processes=draw.choice((1, 1, 2)),
        )
        spec = LabSpec(engine, filesystem=filesystem, drive=drive, **lab)
        return cls(number, kind, spec, chosen, 2 if kind.keeps is False else 4)

    def __str__(self) -> str:
        load = self.workload
        processes = format_count(load.processes or 1, "process")
        return (
            f"{self.kind.name}, {self.spec.engine}, {self.spec.filesystem}, "
            f"kept writes {self.spec.drive.kept_writes}, {load.name} by "
            f"{load.sessions} sessions in {processes}, cut after "
            f"{load.cut_after_s[0]:g} to {load.cut_after_s[1]:g} s"
        )


def _kept_writes(kind: Kind, engine: str) -> tuple[str, ...]:
    """Return what a cut may leave, so that the verdict is known beforehand."""
    if kind.keeps is not True:
        return ("none", "prefix", "torn")  # "all" would lose nothing
    return KEPT_WRITES if engine == "postgresql" else _INNODB_SURVIVORS


def keeps(kind: Kind, report: Mapping[str, Any]) -> bool:
    """Say whether the storage kept every commit; report: of the drive, at its cut."""
    if kind.keeps is not None:
        return kind.keeps
    honoured: int = report["flushes_honoured"]
    flushes: int = report["flushes"]
    return honoured > flushes / 2


def complaint(verdict: Verdict, reasons: tuple[str, ...], *, kept: bool) -> str:
    """Return what is wrong with a verdict; "" if it is right.

    Where nothing was lost by chance, it is INCONCLUSIVE with the reason named.
    """
    if kept:
        wrong = verdict is not Verdict.PASS
    elif verdict is Verdict.INCONCLUSIVE:
        wrong = not any(reasons)
    else:
        wrong = verdict is not Verdict.FAIL
    what = "kept every commit" if kept else "lost commits"
    said = "; ".join(reasons) or "no reason"
    return f"{verdict.name} although the storage {what}: {said}" if wrong else ""
