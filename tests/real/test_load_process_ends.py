"""What is told of a process of the load whose end is interrupted."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import cast

import pytest

from dbcheck import children
from dbcheck.core.schedule import Schedule
from dbcheck.core.server import ServerFacts
from dbcheck.errors import EngineError, LoadError
from dbcheck.load.crew import Told
from dbcheck.load.job import Job
from dbcheck.load.process import ProcessCrew
from dbcheck.load.team import Team
from dbcheck.ports.engine import Engine, Shape
from dbcheck.ports.witness import Witness

WORKER = """\
#!{python}
import sys
from dbcheck.errors import EngineError
from dbcheck.load.crew import Look, Told
from dbcheck.load.job import Ended, receive, send
from dbcheck.local import Channel
client = Channel.inherited(int(sys.argv[-1]))
receive(client)
{then}
"""
CONNECTS = "send(client, Look(running=1)); receive(client)"
TELLS = f"{CONNECTS}; receive(client); send(client, Ended(Told(sent={{1: 5}})))"
HANGS = f"{CONNECTS}; receive(client); receive(client)"
REFUSES = "send(client, EngineError('no such table'))"


class Interrupted(threading.Event):
    """An event at which so many waits are interrupted."""

    left = 0

    def wait(self, timeout: float | None = None) -> bool:
        if self.left:
            self.left -= 1
            raise KeyboardInterrupt
        return super().wait(timeout)


Make = Callable[[str], ProcessCrew]


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Make]:
    """Make crews whose process does as a script says; no thread may be left."""
    crews: list[ProcessCrew] = []

    def made(then: str) -> ProcessCrew:
        worker = tmp_path / "worker"
        worker.write_text(WORKER.format(python=sys.executable, then=then))
        worker.chmod(0o755)
        monkeypatch.setattr(children, "PYTHON", str(worker))
        facts = ServerFacts("Fake", "1", {}, 1, 1, 1, {})
        team = Team(cast(Engine, None), facts, Shape.LEDGER, False, 3)
        job = Job(team, Schedule(1, 2, (10,)), cast(Witness, None), "run", 1)
        crews.append(ProcessCrew(job))
        crews[-1]._has_read = Interrupted()
        return crews[-1]

    yield made
    for crew in crews:
        crew.end(0)
    assert not [t for t in threading.enumerate() if t.name == "load-process"]


def started(crew: ProcessCrew) -> ProcessCrew:
    crew.connect()
    crew.start(1)
    return crew


def end_interrupted(crew: ProcessCrew, waits: int) -> None:
    """End *crew* for a first time; so many of its waits are interrupted."""
    cast(Interrupted, crew._has_read).left = waits
    with pytest.raises(KeyboardInterrupt):
        crew.end()


def test_a_process_tells_what_it_sent(make: Make) -> None:
    crew = started(make(TELLS))
    assert crew.end() == crew.end() == Told(sent={1: 5})


@pytest.mark.parametrize("waits", [1, 2])
@pytest.mark.parametrize("then", [TELLS, HANGS])
def test_an_interrupted_end_never_tells_that_nothing_was_sent(
    make: Make, then: str, waits: int
) -> None:
    crew = started(make(then))
    end_interrupted(crew, waits)
    told = crew.end(0)
    assert told.sent == {1: 5} or isinstance(told.failure, LoadError)
    assert crew.end(0) == told


def test_a_process_whose_reader_fails_is_lost(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(threading, "excepthook", lambda _: None)
    crew = started(make(HANGS))
    crew._errors.close()
    told = crew.end(0)
    assert isinstance(told.failure, LoadError)
    assert "3 sessions, was not heard to its end" in str(told.failure)


def test_a_process_that_refuses_has_sent_nothing(make: Make) -> None:
    crew = make(REFUSES)
    with pytest.raises(EngineError, match="no such table"):
        crew.connect()
    assert crew.end() == Told()
