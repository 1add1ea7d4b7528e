"""Labs that record the drives under one load, and labs that replay a recording."""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Self, TypeVar

from dbcheck import __version__
from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import LabError
from dbcheck.cycle.cycle import finish_cycle
from dbcheck.cycle.preflight.before_load import run_preflight
from dbcheck.cycle.rig import Rig
from dbcheck.explore.folder import Exploration, ExplorePlan
from dbcheck.explore.oracle import Oracle
from dbcheck.lab.drive.recording import RECORD_ANEW
from dbcheck.lab.lab import Lab
from dbcheck.rows.workload import Workload

R = TypeVar("R")
OpenOracle = Callable[[], contextlib.AbstractContextManager[Oracle]]
_POLL_S = 0.2  # so that an interrupt is seen while nothing comes


def record_load(
    lab: Lab, rig: Rig, workload: Workload, seed: int, folder: Exploration
) -> None:
    """Run a cycle on *rig*, whose lab records; store the run and what was recorded.

    rig: it asks no host, so that nothing but the server writes to the drives.
    """
    started = run_preflight(
        rig,
        workload,
        seed,
        emptied=lambda _known: None,  # nothing to store: the lab ends too
    )
    outcome = finish_cycle(rig, started)
    if outcome.load is None:
        raise LabError(
            "the recorded load has no record: its client's part of it was lost",
            id=ErrorId.RECORDED_LOAD_LOST,
            hint=RECORD_ANEW,
        )
    lab.save_recordings()
    folder.write_plan(ExplorePlan(__version__, seed, outcome.run.path.name))


class Labs:
    """Runs jobs on labs; use it in a `with`, which ends all labs.

    ending: set once no further job is to begin; a job that takes long looks at it.
    """

    def __init__(self, open_oracle: OpenOracle, count: int) -> None:
        """open_oracle: builds a lab and what judges on it; called in each thread."""
        self._open, self._count = open_oracle, count
        self.ending = threading.Event()
        self._jobs: queue.Queue[Callable[[Oracle], Any]] = queue.Queue()
        self._results: queue.Queue[Any] = queue.Queue()
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> Self:
        try:
            for number in range(self._count):
                thread = threading.Thread(target=self._work, name=f"lab {number + 1}")
                thread.start()
                self._threads.append(thread)
        except BaseException:  # an interrupt, too
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.ending.set()
        for thread in self._threads:
            thread.join()

    def results(self, jobs: Iterable[Callable[[Oracle], R]]) -> Iterator[R]:
        """Run *jobs*, and yield the result of each as it comes.

        At most two jobs for each lab are under way; once as many are, the next is
        taken from *jobs* only when a result was yielded.
        Raise what a job, or the building of a lab, raised.
        """
        coming, under_way = iter(jobs), 0
        for job in coming:
            self._jobs.put(job)
            under_way += 1
            if under_way == 2 * self._count:  # so no lab waits for the caller
                yield self._wait_for_result()
                under_way -= 1
        for _ in range(under_way):
            yield self._wait_for_result()

    def _wait_for_result(self) -> Any:
        while True:
            with contextlib.suppress(queue.Empty):
                result = self._results.get(timeout=_POLL_S)
                if isinstance(result, BaseException):
                    raise result
                return result

    def _work(self) -> None:
        """Build a lab and do jobs on it; an error ends this lab and is handed over."""
        try:
            with self._open() as oracle:
                while not self.ending.is_set():
                    with contextlib.suppress(queue.Empty):
                        job = self._jobs.get(timeout=_POLL_S)
                        self._results.put(job(oracle))
        except BaseException as error:
            self._results.put(error)
