"""How a host is asked that boots longer than its database."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import HostError
from dbcheck.cycle import host as cycle_host
from dbcheck.cycle.host import inspect_host_again
from dbcheck.model.depth import Remains
from dbcheck.model.host import HostAfter, LogMarks, LogTail, TargetFacts
from dbcheck.model.places import FoundData, Place
from dbcheck.ports.host import Canaries
from dbcheck.ports.listener import Phase
from tests.kit.host_samples import BEFORE, FACTS
from tests.kit.partial_rig import RecordingListener, node_of
from tests.kit.samples import MANIFEST

ASKED = replace(MANIFEST.writer, host=BEFORE)
REMAINS = Remains("", (), 1, (), 1)
TAIL = LogTail("interrupted", False, False)
RECORD = "wtmp records the shutdown"


class Booting:
    """A host that refuses *refusals* times before it lets us in.

    called: what it was asked, in order.  lacks_data: it has no data directory.
    """

    def __init__(self, refusals: int, *, lacks_data: bool = False) -> None:
        self.called: list[str] = []
        self._refusals, self._lacks_data = refusals, lacks_data

    def reach(self) -> None:
        self.called.append("reach")
        if self._refusals:
            self._refusals -= 1
            raise HostError("System is booting up", id=ErrorId.HOST_UNREACHABLE)

    def facts(
        self, data_directory: str, places: Sequence[Place] = (), process: int = 0
    ) -> TargetFacts:
        self.called.append("facts")
        if self._lacks_data:
            raise HostError(f"no {data_directory}", id=ErrorId.HOST_UNREACHABLE)
        return FACTS

    def find_data(self, data_directory: str) -> list[FoundData]:
        raise NotImplementedError

    def find_log(self, path: str, process: int) -> str:
        raise NotImplementedError

    def mark_log(self, path: str) -> LogMarks:
        raise NotImplementedError

    def read_log(self, path: str, marks: LogMarks) -> LogTail:
        self.called.append("read_log")
        return TAIL

    def shutdown_record(self, boot_id: str, since_us: int) -> str:
        self.called.append("shutdown_record")
        return RECORD

    def start_canaries(self, data_directory: str) -> Canaries:
        raise NotImplementedError

    def read_canaries(self, folder: str, nonce: str) -> Remains:
        self.called.append("read_canaries")
        return REMAINS

    def remove_canaries(self, folder: str) -> None:
        self.called.append("remove_canaries")

    def close(self) -> None:
        raise NotImplementedError


QUESTIONS = [
    "facts",
    "read_canaries",
    "read_log",
    "shutdown_record",
    "remove_canaries",
]


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cycle_host, "POLL_S", 0.0)


def ask(host: Booting) -> tuple[HostAfter | None, RecordingListener]:
    listener = RecordingListener()
    return inspect_host_again(node_of(host=host), listener, ASKED), listener


def test_a_host_that_lets_us_in_is_asked_at_once() -> None:
    host = Booting(0)
    after, listener = ask(host)
    assert after == HostAfter(FACTS, REMAINS, TAIL, "", shut_down=RECORD)
    assert host.called == ["reach", *QUESTIONS]
    assert not listener.phases


def test_a_host_that_still_boots_is_waited_for() -> None:
    host = Booting(3)
    after, listener = ask(host)
    assert after == HostAfter(FACTS, REMAINS, TAIL, "", shut_down=RECORD)
    assert host.called == ["reach"] * 4 + QUESTIONS
    said = "retrying its host for up to 60 s: System is booting up"
    assert listener.phases == [(Phase.RESTORE, said)]


def test_a_host_that_never_lets_us_in_is_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cycle_host, "BOOT_S", 0.01)
    host = Booting(10**9)
    after, _ = ask(host)
    assert after == HostAfter(
        None, None, None, "System is booting up", left=BEFORE.canary_folders
    )
    assert set(host.called) == {"reach"}
    assert len(host.called) > 1


def test_what_it_cannot_answer_is_asked_once_and_the_rest_all_the_same() -> None:
    host = Booting(0, lacks_data=True)
    after, listener = ask(host)
    assert after == HostAfter(None, REMAINS, TAIL, "no /d", shut_down=RECORD)
    assert host.called == ["reach", *QUESTIONS]
    assert not listener.phases
