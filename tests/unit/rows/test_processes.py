"""The number of client processes that is chosen where nobody gives one."""

from __future__ import annotations

import pytest

from dbcheck.rows.workload import PlanKind, Workload, describe_processes


def workload(
    sessions: int, *, processes: int | None = None, rate: float = 0.0
) -> Workload:
    return Workload(
        *("mine", "", PlanKind.INSERT, sessions, (10,)), rate=rate, processes=processes
    )


@pytest.mark.parametrize(
    ("cores", "sessions", "processes"),
    [
        pytest.param(1, 64, 1, id="one core"),
        pytest.param(2, 64, 1, id="the server and the witness have a core"),
        pytest.param(4, 64, 2, id="every two cores"),
        pytest.param(7, 64, 3, id="a core that is left over"),
        pytest.param(16, 64, 4, id="more cost and bring nothing"),
        pytest.param(256, 10_000, 4, id="a large machine"),
        pytest.param(16, 1, 1, id="one session"),
        pytest.param(16, 7, 1, id="too few to share"),
        pytest.param(16, 8, 2, id="every four sessions"),
        pytest.param(16, 16, 4, id="enough sessions"),
    ],
)
def test_cores_and_sessions_decide(cores: int, sessions: int, processes: int) -> None:
    chosen = workload(sessions).for_cores(cores)
    assert (chosen.processes, chosen.cores) == (processes, cores)


@pytest.mark.parametrize(
    ("rate", "processes"), [(0.0, 4), (0.5, 1), (10_000.0, 1), (10_001.0, 4)]
)
def test_a_rate_that_one_process_makes_needs_no_other(
    rate: float, processes: int
) -> None:
    assert workload(64, rate=rate).for_cores(16).processes == processes


@pytest.mark.parametrize("given", [1, 2, 12])
def test_a_number_that_was_given_stays(given: int) -> None:
    chosen = workload(64, processes=given).for_cores(16)
    assert (chosen.processes, chosen.cores) == (given, None)


def test_what_was_chosen_once_is_not_chosen_again() -> None:
    """As in a campaign that is resumed on another machine."""
    chosen = workload(64).for_cores(16)
    assert chosen.for_cores(2) == chosen


def test_there_are_never_more_processes_than_sessions() -> None:
    assert workload(64, processes=12).with_sessions(3).processes == 3
    assert workload(64).with_sessions(3).processes is None


@pytest.mark.parametrize(
    ("processes", "cores", "said"),
    [
        (1, None, ""),
        (2, None, "2 client processes"),
        (1, 1, "1 client process on 1 core"),
        (1, 2, "1 client process on 2 cores"),
        (4, 16, "4 client processes on 16 cores"),
    ],
)
def test_what_chose_them_is_said(processes: int, cores: int | None, said: str) -> None:
    assert describe_processes(processes, cores) == said
