"""Runs the configurations of a matrix, each in a lab of its own, or all on one target.

The settings of a target are the same afterwards as before.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from dbcheck.base import interrupt
from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import DbcheckError, UsageError
from dbcheck.config.secret import Secret
from dbcheck.cycle.cycle import require_server_back, run_control
from dbcheck.cycle.outcome import Outcome
from dbcheck.cycle.preflight.before_load import require_server
from dbcheck.cycle.preflight.earlier_cycles import NOTHING_KNOWN
from dbcheck.cycle.preflight.pending_runs import require_none_pending
from dbcheck.cycle.rig import Rig
from dbcheck.engines.url import read_url
from dbcheck.inventory.entry import Entry
from dbcheck.model.cluster import Weakens
from dbcheck.model.family import FAMILIES, Family
from dbcheck.report.progress import PlainProgress
from dbcheck.report.rows import Line
from dbcheck.report.words.run import headline
from dbcheck.runner import assemble
from dbcheck.runner.lab_clusters import run_cluster_cycles
from dbcheck.runner.lab_cycles import adapt_workload_to_lab, run_lab_cycles
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
        """True if no further cut is wanted, as the last one lost something.

        A loss without a power cut is no cut that lost.
        """
        return self.row.until_loss and self.outcomes[-1].result.lost_in_cut

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
        )


def run_in_labs(
    measured: Sequence[RowResults],
    seed: int,
    view: PlainProgress,
    runs: Path,
) -> None:
    """Build a lab for each row, cut its power as often as it says; note the outcomes.

    A row that fails does not stop the others.
    """
    for number, results in enumerate(measured, 1):
        view.line("row", f"{number} of {len(measured)}: {results.row.name}")
        row, load = results.row, adapt_workload_to_lab(results.row.workload)
        assert row.lab is not None
        if row.cluster is None:
            cycles = run_lab_cycles(row.lab, load, seed, row.cuts, view, runs)
        else:
            cycles = run_cluster_cycles(
                row.lab, row.cluster, load, seed, row.cuts, view, runs
            )
        with results.running(view), contextlib.closing(cycles):
            for outcome in cycles:
                results.note(outcome, view)
                if results.is_over:
                    break


def adapt_to_target(measured: Sequence[RowResults], entry: Entry) -> None:
    """Give each row what it does not say: the target's price, and the processes."""
    for one in measured:
        price = entry.price if one.row.price is None else one.row.price
        workload = one.row.workload
        if workload.processes is None:
            workload = workload.with_processes(entry.processes)
        workload = assemble.choose_processes(entry, workload)
        one.row = replace(one.row, price=price, workload=workload)


def run_on_target(
    measured: Sequence[RowResults],
    base: Rig,
    seed: int,
    view: PlainProgress,
    password: Secret | None,
) -> None:
    """Cut the power of *base*'s target under each row, as often as the row says.

    A row that the server refuses is found before the first cut, and does not stop the
    others.  A later error ends the matrix: the run that it leaves must be reconciled
    before anything else writes to the server.  Raise UsageError if such a run exists
    already.
    """
    runnable: list[tuple[RowResults, Rig]] = []
    node = base.site.writer
    require_none_pending(base.runs, node.engine)
    for results in measured:
        engine = node.engine
        if settings := results.row.settings:
            url = add_session_settings(engine.target, settings, FAMILIES[engine.family])
            engine = assemble.make_engine(url, password)
        try:
            require_server(
                engine,
                results.row.workload,
                Weakens.FLUSH if results.row.relaxed else None,
                asks_host=node.host is not None,
            )
        except DbcheckError as error:
            results.fail(error)
        else:
            runnable.append(
                (
                    results,
                    replace(
                        base, site=base.site.with_writer(replace(node, engine=engine))
                    ),
                )
            )
    known = NOTHING_KNOWN
    for results, rig in runnable:
        known = known.without_setup()
        view.line("row", results.row.name)
        with results.running(view):
            for number in range(results.row.cuts):
                drawn = seed + number
                if results.row.relaxed:
                    outcome = run_control(rig, results.row.workload, drawn, known)
                else:
                    outcome = run_resumable_cycle(
                        rig, results.row.workload, drawn, [], known, view
                    )
                results.note(outcome, view)
                require_server_back(rig, outcome)  # before the next cut
                # Where the rows were not read, it is not known what the cycle left.
                known = known.with_outcome(outcome) if outcome.found else NOTHING_KNOWN
                if results.is_over:
                    break
        if results.error:
            return


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
