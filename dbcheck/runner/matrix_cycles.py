"""Runs the configurations of a matrix, each in a lab of its own."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from dbcheck.base import interrupt
from dbcheck.base.errors import DbcheckError
from dbcheck.cycle.outcome import Outcome
from dbcheck.model.verdict import Verdict
from dbcheck.report.progress import PlainProgress
from dbcheck.report.rows import Line
from dbcheck.report.words.run import with_bound
from dbcheck.runner.lab_clusters import cluster_cycles
from dbcheck.runner.lab_cycles import lab_cycles, lab_workload
from dbcheck.runner.matrix_rows import Row


@dataclass(slots=True)
class Measured:
    """A configuration and its results so far.

    error: why it ended early; "" once all of its cuts are done.  error_id: of that.
    """

    row: Row
    outcomes: list[Outcome] = field(default_factory=list)
    error: str = "not run"
    error_id: str = ""

    def note(self, outcome: Outcome, view: PlainProgress) -> None:
        """Add the outcome of a cycle, and print its verdict."""
        self.outcomes.append(outcome)
        view.line(outcome.verdict.value, with_bound(outcome.result))

    @property
    def is_over(self) -> bool:
        """Whether no further cut is wanted, as the last one lost something."""
        return self.row.until_loss and self.outcomes[-1].verdict is Verdict.FAIL

    @contextlib.contextmanager
    def running(self, view: PlainProgress) -> Iterator[None]:
        """Note how the row ends; an expected failure is a part of the matrix."""
        try:
            yield
        except DbcheckError as error:
            if interrupt.led_to(error):  # closing failed because of a Ctrl-C
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
        """Note why it ended early."""
        self.error = f"{error}. {error.hint}" if error.hint else str(error)
        self.error_id = error.id

    def line(self) -> Line:
        """Return what the report shows of it."""
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


def in_labs(
    measured: Sequence[Measured],
    seed: int,
    view: PlainProgress,
    runs: Path,
) -> None:
    """Build a lab for each row, cut its power as often as it says; note the outcomes.

    A row that fails does not stop the others.
    """
    for number, one in enumerate(measured, 1):
        view.line("row", f"{number} of {len(measured)}: {one.row.name}")
        row, load = one.row, lab_workload(one.row.workload)
        assert row.lab is not None
        if row.cluster is None:
            cycles = lab_cycles(row.lab, load, seed, row.cuts, view, runs)
        else:
            cycles = cluster_cycles(
                row.lab, row.cluster, load, seed, row.cuts, view, runs
            )
        with one.running(view), contextlib.closing(cycles):
            for outcome in cycles:
                one.note(outcome, view)
                if one.is_over:
                    break
