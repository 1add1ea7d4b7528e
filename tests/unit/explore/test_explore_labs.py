"""Jobs on several labs side by side: their results, their errors, their end."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import cast

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import LabError
from dbcheck.cli.lab_explore import choose_lab_count, find_lab_count
from dbcheck.explore.labs import Labs
from dbcheck.explore.oracle import Oracle
from tests.kit.refusals import refused


class Opened:
    """Stands for labs; counts those that are open."""

    def __init__(self, failing: int = 0) -> None:
        self.open = self.opened = 0
        self._failing = failing
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def one(self) -> Iterator[Oracle]:
        with self._lock:
            self.opened += 1
            if self.opened <= self._failing:
                raise LabError("no loop device", id=ErrorId.LAB_DAEMON_FAILED)
            self.open += 1
        try:
            yield cast(Oracle, self)
        finally:
            with self._lock:
                self.open -= 1


def squared(number: int, _oracle: Oracle) -> int:
    return number * number


def test_each_job_gives_its_result_once() -> None:
    opened = Opened()
    with Labs(opened.one, 3) as labs:
        found = labs.results(partial(squared, number) for number in range(50))
        assert sorted(found) == [number * number for number in range(50)]
        assert list(labs.results([])) == []
        assert list(labs.results([partial(squared, 3)])) == [9]
    assert (opened.opened, opened.open) == (3, 0)


def test_jobs_are_taken_as_labs_become_free() -> None:
    taken: list[int] = []

    def jobs() -> Iterator[Callable[[Oracle], int]]:
        for number in range(100):
            taken.append(number)
            yield partial(squared, number)

    with Labs(Opened().one, 2) as labs:
        next(labs.results(jobs()))
        assert len(taken) <= 5


@pytest.mark.parametrize("failing", [1, 2])
def test_a_lab_that_cannot_be_built_is_an_error(failing: int) -> None:
    opened = Opened(failing)

    def until_both_began(_oracle: Oracle) -> int:
        while opened.opened < 2:
            threading.Event().wait(0.001)
        return 1

    with (
        refused(ErrorId.LAB_DAEMON_FAILED, LabError, naming="no loop device"),
        Labs(opened.one, 2) as labs,
    ):
        list(labs.results([until_both_began] * 20))
    assert opened.open == 0


def test_what_a_job_raises_ends_all() -> None:
    opened = Opened()

    def broken(_oracle: Oracle) -> int:
        raise LabError("the drive died", id=ErrorId.LAB_DAEMON_FAILED)

    others = [partial(squared, number) for number in range(30)]
    jobs: list[Callable[[Oracle], int]] = [others[1], broken, *others]
    with (
        refused(ErrorId.LAB_DAEMON_FAILED, LabError, naming="the drive died"),
        Labs(opened.one, 2) as labs,
    ):
        list(labs.results(jobs))
    assert opened.open == 0


def test_an_interrupt_while_labs_are_built_ends_those_that_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    opened, start = Opened(), threading.Thread.start

    def interrupted(thread: threading.Thread) -> None:
        if thread.name == "lab 3":
            raise KeyboardInterrupt
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", interrupted)
    with pytest.raises(KeyboardInterrupt), Labs(opened.one, 4):
        pass
    assert opened.open == 0
    assert not [one for one in threading.enumerate() if one.name.startswith("lab ")]


def test_an_interrupt_ends_all_labs_after_the_job_they_are_at() -> None:
    opened, done = Opened(), []

    def noted(number: int, _oracle: Oracle) -> int:
        done.append(number)
        return number

    with (
        contextlib.suppress(KeyboardInterrupt),
        Labs(opened.one, 2) as labs,
    ):
        for number in labs.results(partial(noted, n) for n in range(1000)):
            if number == 5:
                raise KeyboardInterrupt
    assert opened.open == 0
    assert len(done) < 20


@pytest.mark.parametrize(
    ("cores", "labs"), [(1, 1), (2, 3), (3, 4), (16, 24), (43, 64), (256, 64)]
)
def test_three_labs_share_two_cores(cores: int, labs: int) -> None:
    """A lab waits at times: for its drive, and for its server to end."""
    assert choose_lab_count(cores) == labs


def test_the_cores_that_are_free_decide_the_number_of_labs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A container may have two of many cores; a number that was asked for wins."""
    monkeypatch.setattr("dbcheck.cli.lab_explore.count_free_cores", lambda: 2)
    assert find_lab_count(None) == 3
    assert find_lab_count(1) == 1
