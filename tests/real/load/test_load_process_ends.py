"""What is reported of a process of the load whose end is interrupted."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import cast

import pytest

from dbcheck.base import processes
from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import EngineError, LoadError
from dbcheck.load.group import GroupResult
from dbcheck.load.job import Job
from dbcheck.load.process import ProcessGroup
from dbcheck.load.sessions import Sessions
from dbcheck.model.server import ServerFacts
from dbcheck.ports.engine import Engine
from dbcheck.ports.witness import Witness
from tests.kit.operations import INSERTS
from tests.kit.refusals import refused
from tests.kit.threads import threads_named

WORKER = """\
#!{python}
import sys
from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import EngineError
from dbcheck.load.group import Snapshot, GroupResult
from dbcheck.load.job import Ended, receive, send
from dbcheck.base.processes import Channel
client = Channel.inherited(int(sys.argv[-1]))
receive(client)
{then}
"""
CONNECTS = "send(client, Snapshot(running=1)); receive(client)"
TELLS = f"{CONNECTS}; receive(client); send(client, Ended(GroupResult(sent={{1: 5}})))"
HANGS = f"{CONNECTS}; receive(client); receive(client)"
REFUSES = "send(client, EngineError('no such table', id=ErrorId.TABLE_LOST))"


class Interrupted(threading.Event):
    """An event at which so many waits are interrupted."""

    left = 0

    def wait(self, timeout: float | None = None) -> bool:
        if self.left:
            self.left -= 1
            raise KeyboardInterrupt
        return super().wait(timeout)


Make = Callable[[str], ProcessGroup]


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Make]:
    """Make groups whose process does as a script says; no thread may be left."""
    groups: list[ProcessGroup] = []

    def made(then: str) -> ProcessGroup:
        worker = tmp_path / "worker"
        worker.write_text(WORKER.format(python=sys.executable, then=then))
        worker.chmod(0o755)
        monkeypatch.setattr(processes, "PYTHON", str(worker))
        facts = ServerFacts("Fake", "1", {}, 1, 1, 1, {})
        sessions = Sessions(cast(Engine, None), facts, INSERTS, None, 3)
        job = Job(sessions, cast(Witness, None), "run", 1)
        groups.append(ProcessGroup(job))
        groups[-1]._has_read = Interrupted()
        return groups[-1]

    yield made
    for group in groups:
        group.end(0)
    assert threads_named("load-process") == []


def started(group: ProcessGroup) -> ProcessGroup:
    group.connect()
    group.start(1)
    return group


def end_interrupted(group: ProcessGroup, waits: int) -> None:
    """End *group* for a first time; so many of its waits are interrupted."""
    cast(Interrupted, group._has_read).left = waits
    with pytest.raises(KeyboardInterrupt):
        group.end()


def test_a_process_tells_what_it_sent(make: Make) -> None:
    group = started(make(TELLS))
    assert group.end() == group.end() == GroupResult(sent={1: 5})


@pytest.mark.parametrize("waits", [1, 2])
@pytest.mark.parametrize("then", [TELLS, HANGS])
def test_an_interrupted_end_never_tells_that_nothing_was_sent(
    make: Make, then: str, waits: int
) -> None:
    group = started(make(then))
    end_interrupted(group, waits)
    result = group.end(0)
    assert result.sent == {1: 5} or isinstance(result.failure, LoadError)
    assert group.end(0) == result


def test_a_process_whose_reader_fails_is_lost(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(threading, "excepthook", lambda _: None)
    group = started(make(HANGS))
    group._errors.close()
    result = group.end(0)
    assert isinstance(result.failure, LoadError)
    assert "3 sessions, did not send its result" in str(result.failure)


def test_a_process_that_refuses_has_sent_nothing(make: Make) -> None:
    group = make(REFUSES)
    with refused(ErrorId.TABLE_LOST, EngineError, naming="no such table") as caught:
        group.connect()
    assert caught.value.id is ErrorId.TABLE_LOST
    assert group.end() == GroupResult()
