"""Runs the configurations of a matrix, each in a lab of its own, or all on one target.

The settings of a target are the same afterwards as before.
"""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from dbcheck.base import interrupt
from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import DbcheckError, UsageError
from dbcheck.cycle.cycle import require_server_back, run_control
from dbcheck.cycle.outcome import Outcome
from dbcheck.cycle.preflight.before_load import require_server
from dbcheck.cycle.preflight.earlier_cycles import NOTHING_KNOWN, Known
from dbcheck.cycle.preflight.pending_runs import require_none_pending
from dbcheck.cycle.rebuild import (
    lead_by_writer,
    may_have_lost,
    rebuild_after_pass,
    rebuild_cluster,
    require_old_writer_read,
)
from dbcheck.cycle.rig import Rig
from dbcheck.engines.url import read_url
from dbcheck.inventory.entry import Entry
from dbcheck.model.cluster import Weakens
from dbcheck.model.family import FAMILIES, Family
from dbcheck.model.verdict import Verdict
from dbcheck.ports.site import Site
from dbcheck.report.progress import PlainProgress
from dbcheck.report.rows import Line
from dbcheck.report.words.run import headline
from dbcheck.runner import assemble
from dbcheck.runner.guard import require_control_possible
from dbcheck.runner.lab_clusters import run_cluster_cycles
from dbcheck.runner.lab_cycles import adapt_workload_to_lab, run_lab_cycles
from dbcheck.runner.lab_restores import run_restore_cycles
from dbcheck.runner.matrix_rows import Row
from dbcheck.runner.resume import run_resumable_cycle


@dataclass(slots=True)
class RowResults:
    """A configuration and its results so far.

    error: why the row ended early; "" once it has run to its end.
    error_id: id of that error.
    """

    row: Row
    outcomes: list[Outcome] = field(default_factory=list)
    error: str = "not run"
    error_id: str = ""

    def note(self, outcome: Outcome, view: PlainProgress) -> None:
        """Add the outcome of a cycle, and print its verdict."""
        self.outcomes.append(outcome)
        view.line(outcome.verdict.value, headline(outcome.result))

    @property
    def is_over(self) -> bool:
        """True if no further cycle is wanted, as the last one lost something.

        A loss without a power cut is no cut that lost.
        """
        last = self.outcomes[-1].result
        lost = last.verdict is Verdict.FAIL if last.copy else last.lost_in_cut
        return self.row.until_loss and lost

    @contextlib.contextmanager
    def running(self, view: PlainProgress) -> Iterator[None]:
        """Note how the row ends; an expected failure is a part of the matrix."""
        try:
            yield
        except DbcheckError as error:
            # Closing may fail because of a Ctrl-C.
            if interrupt.is_caused_by_interrupt(error):
                self.error = "interrupted"
                raise KeyboardInterrupt from error
            self.fail(error)
            view.line("failed", self.error)
        except KeyboardInterrupt:
            self.error = "interrupted"
            raise
        else:
            self.error = ""

    def fail(self, error: DbcheckError) -> None:
        """Note *error* as the reason why the row ended early."""
        self.error = f"{error}. {error.hint}" if error.hint else str(error)
        self.error_id = error.id

    def line(self) -> Line:
        """Return the row's line in the report."""
        row = self.row
        return Line(
            name=row.name,
            reference=row.reference,
            expect=row.expect,
            price=row.price,
            cycles=[outcome.result for outcome in self.outcomes],
            error=self.error,
            error_id=self.error_id,
            restore=row.restore,
        )


def run_in_labs(
    measured: Sequence[RowResults],
    seed: int,
    view: PlainProgress,
    runs: Path,
) -> None:
    """Build a lab for each row, run as many cycles as it says; note the outcomes.

    A row that fails does not stop the others.
    """
    for number, results in enumerate(measured, 1):
        view.line("row", f"{number} of {len(measured)}: {results.row.name}")
        cycles = _run_row_in_lab(results.row, seed, view, runs)
        with results.running(view), contextlib.closing(cycles):
            for outcome in cycles:
                results.note(outcome, view)
                if results.is_over:
                    break


def _run_row_in_lab(
    row: Row, seed: int, view: PlainProgress, runs: Path
) -> Generator[Outcome, None, None]:
    """Return the cycles of a row, each with its power cut or its copy."""
    load = adapt_workload_to_lab(row.workload)
    assert row.lab is not None
    if row.restore:
        return run_restore_cycles(
            row.lab, row.restore, load, seed, row.cuts, view, runs
        )
    if row.cluster is None:
        return run_lab_cycles(row.lab, load, seed, row.cuts, view, runs)
    return run_cluster_cycles(row.lab, row.cluster, load, seed, row.cuts, view, runs)


def adapt_to_target(measured: Sequence[RowResults], entry: Entry) -> None:
    """Give each row what it does not say: the target's price, and the processes."""
    for one in measured:
        price = entry.price if one.row.price is None else one.row.price
        workload = one.row.workload
        if workload.processes is None:
            workload = workload.with_processes(entry.processes)
        workload = assemble.choose_processes(entry, workload)
        one.row = replace(one.row, price=price, workload=workload)


@dataclass(slots=True)
class _Course:
    """What the cycles of a matrix on a target left for the next one.

    rig:   without the settings of a row, led by the node that takes writes.
    settings: of the writer before the first cut; {} of a single server.
    """

    rig: Rig
    settings: Mapping[str, str]
    known: Known = NOTHING_KNOWN
    last: Outcome | None = None

    def run_row(
        self, results: RowResults, rig: Rig, seed: int, view: PlainProgress
    ) -> None:
        """Run the cycles of a row on *rig*, and note their outcomes."""
        row, self.known = results.row, self.known.without_setup()
        for number in range(row.cuts):
            if self.last is not None:
                self.rig = _make_whole(self.rig, self.last, self.settings)
            rig = replace(rig, site=rig.site.led_by(self.rig.site.writer_name))
            drawn = seed + number
            if row.relaxed:
                outcome = run_control(rig, row.workload, drawn, self.known)
            else:
                outcome = run_resumable_cycle(
                    rig, row.workload, drawn, [], self.known, view
                )
            self.last = outcome
            results.note(outcome, view)
            require_server_back(rig, outcome)  # before the next cut
            # Where the rows were not read, it is not known what the cycle left.
            known = self.known.with_outcome(outcome)
            self.known = known if outcome.found else NOTHING_KNOWN
            if results.is_over:
                return


def run_on_target(
    measured: Sequence[RowResults],
    base: Rig,
    seed: int,
    view: PlainProgress,
    entry: Entry,
) -> None:
    """Cut the power of *base*'s target under each row, as often as the row says.

    A row that the server refuses is found before the first cut, and does not stop the
    others.  A later error ends the matrix: the run that it leaves must be reconciled
    before anything else writes to the server.  A cluster is rebuilt before the next
    cut, also after a loss, once what the old writer alone holds was read.  Raise
    UsageError if such a run exists already.
    entry: of the target.
    """
    for node in base.site.nodes.values():
        require_none_pending(base.runs, node.engine)
    leads = replace(base, site=lead_by_writer(base.site))
    is_cluster = base.site.promise is not None
    settings = leads.site.writer.engine.facts().settings if is_cluster else {}
    course = _Course(leads, settings)
    for results, rig in list(_list_runnable(measured, leads, entry)):
        view.line("row", results.row.name)
        with results.running(view):
            course.run_row(results, rig, seed, view)
        if results.error:
            return
    if course.last is not None:
        rebuild_after_pass(course.rig, course.last)


def _list_runnable(
    measured: Sequence[RowResults], base: Rig, entry: Entry
) -> Iterator[tuple[RowResults, Rig]]:
    """Yield each row that the server takes, with its rig; note why others fail.

    Raise UsageError for a row that no such server takes.
    """
    for results in measured:
        row = results.row
        if row.relaxed:
            require_control_possible(entry)
        site = _apply_settings(base.site, row.settings, entry)
        try:
            require_server(
                site.writer.engine,
                row.workload,
                Weakens.for_promise(site.promise) if row.relaxed else None,
                asks_host=site.writer.host is not None,
            )
        except DbcheckError as error:
            results.fail(error)
        else:
            yield results, replace(base, site=site)


def _apply_settings(site: Site, settings: Mapping[str, str], entry: Entry) -> Site:
    """Return *site* with *settings* for the sessions on each of its nodes.

    Any node of a cluster may take the load of a later cut.  No server's configuration
    changes, so nothing is to be set back.
    """
    if not settings:
        return site
    passwords = {host.name: host.password for host in (entry, *entry.standbys)}
    writer_name = site.writer_name
    for name, node in site.nodes.items():
        family = FAMILIES[node.engine.family]
        url = add_session_settings(node.engine.target, settings, family)
        engine = assemble.make_engine(url, passwords.get(name, entry.password))
        site = site.led_by(name).with_writer(replace(node, engine=engine))
    return site.led_by(writer_name)


def _make_whole(rig: Rig, last: Outcome, settings: Mapping[str, str]) -> Rig:
    """Return *rig*; of a cluster, led by the node that takes writes after *last*.

    rig: without the settings of a row.  settings: the writer's before the first cut,
    without those: commits on the new writer must wait as they did then.
    """
    if rig.site.promise is None:
        return rig
    lost = may_have_lost(last)
    if lost:
        require_old_writer_read(rig.site, last.run)
    return rebuild_cluster(rig, last.run, keeps_data=lost, settings=settings)


def add_session_settings(url: str, settings: Mapping[str, str], family: Family) -> str:
    """Return *url* with *settings* for each session; the server keeps its settings.

    Raise UsageError for a family whose durability is not set per session.
    """
    parsed = read_url(url)
    if not family.has_session_durability:
        raise UsageError(
            f"{', '.join(settings)} cannot be set for a session of this server",
            id=ErrorId.SETTING_NOT_FOR_SESSION,
            hint="Change its configuration between two matrices, or use relaxed = "
            "true, which dbcheck undoes.",
        )
    given = parsed.query.get("options", "")
    parts = [given] if isinstance(given, str) else list(given)
    for name, value in settings.items():
        escaped = value.replace("\\", "\\\\").replace(" ", "\\ ")
        parts.append(f"-c {name}={escaped}")
    options = {"options": " ".join(part for part in parts if part)}
    return parsed.update_query_dict(options).render_as_string()
