"""Checks of one host of an inventory that cut nothing: witness, audit, flushes.

Each returns its result; a command, or dbcheck golive, shows it.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass

from dbcheck.audit.result import AuditResult
from dbcheck.base.errors import DbcheckError, UsageError
from dbcheck.config import workload_file
from dbcheck.cycle.preflight.audit import audit_server
from dbcheck.cycle.preflight.independence import require_independent
from dbcheck.inventory.entry import Entry
from dbcheck.power.kinds.lab import LabConfig
from dbcheck.probe.flushes_result import FlushesResult
from dbcheck.probe.measure_flushes import probe_flushes
from dbcheck.rows.plans.registry import tables_of
from dbcheck.runner import assemble
from dbcheck.runner.placement import place_to_look
from dbcheck.witness.window import WindowLimits

PROBES = 200  # writes with an fsync on a witness
COMMITS = 200  # of a probe of flushes, unless the user wants another number
# An inventory may name another workload; where its tables would lie is audited, too.
AUDITED_WORKLOAD = "insert"


@dataclass(frozen=True, slots=True)
class WitnessCheck:
    """What a witness showed of itself.

    fsync_ms: "p50", "p99" and "max" of an append with an fsync, in milliseconds.
    independence: how it is known that it is another host than the server's.
    """

    witness: str
    hostname: str
    folder: str
    filesystem: str
    free_bytes: int
    fsync_ms: Mapping[str, float]
    independence: str

    def list_facts(self) -> dict[str, str]:
        """Return what a person wants to know, by name."""
        fsync = self.fsync_ms
        return {
            "folder": f"{self.folder} ({self.filesystem}, "
            f"{self.free_bytes / 1e9:,.1f} GB free)",
            "append + fsync": f"p50 {fsync['p50']:.2f} ms, p99 {fsync['p99']:.2f} ms, "
            f"max {fsync['max']:.2f} ms ({PROBES} times)",
            "independence": self.independence,
        }


def check_witness(entry: Entry, accept_new_key: bool | None = None) -> WitnessCheck:
    """Write and sync on the witness of *entry*; raise DbcheckError if it cannot be one.

    accept_new_key: trust and store the host key of a witness that is not known.
    """
    with assemble.open_entry_witness(entry, WindowLimits(), accept_new_key) as opened:
        facts = opened.facts()
        independence = "not compared: no --target was given"
        if isinstance(entry.power, LabConfig):
            independence = "the lab's own: this machine keeps its power"
        elif entry.target:
            endpoints = assemble.make_engine(entry.target, None).endpoints()
            independence = require_independent(endpoints, opened.kind, facts)
        latency_ms = sorted(1000 * s for s in opened.probe(PROBES))
    cuts = statistics.quantiles(latency_ms, n=100)
    return WitnessCheck(
        entry.witness,
        facts.hostname,
        facts.folder,
        facts.filesystem,
        facts.free_bytes,
        {"p50": cuts[49], "p99": cuts[98], "max": latency_ms[-1]},
        independence,
    )


def audit_entry(entry: Entry) -> AuditResult:
    """Audit one server and its host, where that may be asked; raise DbcheckError."""
    entry = place_to_look(entry)
    host, pods = assemble.make_host(entry), assemble.make_pod_source(entry.kubernetes)
    engine = assemble.make_engine(entry.target, entry.password)
    tables = tables_of(workload_file.load(entry.workload or AUDITED_WORKLOAD))
    try:
        return audit_server(engine, host, tables, entry.name, pods)
    finally:
        if host is not None:
            host.close()


def audit_one_of_many(entry: Entry) -> AuditResult:
    """Audit one server; one that cannot be reached does not end the others."""
    try:
        return audit_entry(entry)
    except UsageError:
        raise
    except DbcheckError as error:
        return AuditResult.failed(entry.name, entry.target, error)


def probe_entry_flushes(entry: Entry, commits: int, seed: int) -> FlushesResult:
    """Count the flushes of one server's drives; raise DbcheckError."""
    entry = place_to_look(entry)
    with closing(assemble.require_entry_host(entry)) as host:
        engine = assemble.make_engine(entry.target, entry.password)
        return probe_flushes(engine, host, commits, seed, entry.name)


def probe_flushes_of_one_of_many(
    entry: Entry, commits: int, seed: int
) -> FlushesResult:
    """Probe one server; one that cannot be reached does not end the others."""
    try:
        return probe_entry_flushes(entry, commits, seed)
    except UsageError:
        raise
    except DbcheckError as error:
        return FlushesResult.failed(entry.name, entry.target, error)
