"""What every witness must do, over each of the ways to it."""

from __future__ import annotations

import contextlib
import os
import pickle
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import WitnessError
from dbcheck.model.witness import Watermark
from dbcheck.ports.witness import WitnessLog
from dbcheck.rows.acks import Ack
from dbcheck.witness.log import AckBatch, LogScan
from dbcheck.witness.window import WindowLimits
from tests.kit.refusals import refused
from tests.kit.waiting import wait_until
from tests.kit.witnesses import (
    SERVERS,
    Place,
    ack_of,
    append_from_threads,
    give_up_after,
    read_back,
    running_place,
    witness_threads,
)

SOON_S = 20.0


@pytest.fixture(scope="module", params=[*SERVERS, "file"])
def place(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Place]:
    with running_place(request.param, tmp_path_factory.mktemp("witness")) as place:
        yield place


@pytest.fixture(autouse=True)
def nothing_is_left(place: Place) -> Iterator[None]:
    yield
    wait_until(lambda: not place.agents(), "the agents are gone")
    assert witness_threads() == []


def test_a_hundred_thousand_acks_come_back_as_they_were(place: Place) -> None:
    witness = place.witness()
    log = witness.create("full", b'{"seed": 1}')
    append_from_threads(log, sessions=8, each=12_500)
    mark = log.close()
    assert (mark.acks, log.unconfirmed()) == (100_000, 0)
    assert log.close() == mark
    acks, events = read_back(witness, "full", mark)
    assert events == []
    for session in range(8):
        own = [ack for ack in acks if ack.session == session]
        assert own == [ack_of(session, seq) for seq in range(1, 12_501)]
    assert len(acks) == 100_000
    assert place.log_path("full").stat().st_size <= 16 * len(acks)
    assert 1 <= log.window().acks <= 4096
    assert log.window().age_s > 0
    assert witness.manifest("full") == b'{"seed": 1}'
    witness.close()


def test_an_event_loop_appends_without_waiting(place: Place) -> None:
    witness = place.witness(limits=WindowLimits(acks=500))
    log = witness.create("loop", b"{}")
    sent = [ack_of(1, seq) for seq in range(1, 20_001)]
    at = 0
    while at < len(sent):
        room = log.room()
        if not room:
            assert select.select([log], [], [], SOON_S)[0]
            continue
        log.append_many(sent[at : at + room])
        at += room
    while log.confirmed() < len(sent):
        assert select.select([log], [], [], SOON_S)[0]
        log.room()
    mark = log.close()
    assert log.fileno() == -1
    assert (mark.acks, log.window().acks) == (20_000, 500)
    assert read_back(witness, "loop", mark)[0] == sent
    with refused(ErrorId.WITNESS_LOG_CLOSED, WitnessError):
        log.append_many(sent)
    witness.close()


def test_an_event_is_durable_when_note_returns(place: Place) -> None:
    witness = place.witness()
    log = witness.create("events", b"{}")
    log.append(ack_of(1, 1))
    log.note({"cut": "asked"})
    assert (log.watermark().acks, log.unconfirmed()) == (1, 0)
    log.append(ack_of(1, 2))
    log.note({"cut": "done"})
    mark = log.watermark()
    acks, events = read_back(witness, "events", mark)  # while it is open
    assert acks == [ack_of(1, 1), ack_of(1, 2)]
    assert events == [{"cut": "asked"}, {"cut": "done"}]
    assert log.close() == mark
    with refused(ErrorId.WITNESS_EVENT_TOO_LONG, WitnessError):
        log.note({"x": "y" * (1 << 18)})
    with refused(ErrorId.WITNESS_LOG_CLOSED, WitnessError):
        log.append(ack_of(1, 3))
    witness.close()


def test_lockstep_never_leaves_an_ack_unconfirmed(place: Place) -> None:
    witness = place.witness(limits=WindowLimits(lockstep=True))
    log = witness.create("lockstep", b"{}")
    for seq in range(1, 51):
        log.append(ack_of(1, seq))
        assert log.watermark().acks == seq
    assert log.window().acks == 1
    log.close()
    witness.close()


def test_a_second_client_is_refused_on_the_same_run(place: Place) -> None:
    first, second = place.witness(), place.witness()
    log = first.create("shared", b"{}")
    with refused(
        ErrorId.WITNESS_LOG_EXISTS, WitnessError, naming="run shared already exists"
    ) as caught:
        second.create("shared", b"{}")
    assert caught.value.hint
    with refused(ErrorId.WITNESS_IN_USE, WitnessError, naming="being written"):
        second.remove("shared")
    log.append(ack_of(1, 1))
    assert log.close().acks == 1
    with refused(ErrorId.WITNESS_LOG_EXISTS, WitnessError, naming="already"):
        second.create("shared", b"{}")
    first.close()
    second.close()


def test_a_run_has_a_log_for_each_process_that_joins(place: Place) -> None:
    witness = place.witness()
    logs = [witness.create("several", b'{"logs": 4}')]
    # As another process does it: a copy that has a connection of its own.
    copies = [pickle.loads(pickle.dumps(witness)) for _ in range(2)]
    logs += [copies[0].join("several", 1), copies[1].join("several", 2)]
    for call, why in (
        (lambda: witness.join("several", 1), "being written"),
        (lambda: witness.join("several", 4), "has 4 logs, no log 4"),
        (lambda: witness.join("several", 0), "no log 0"),
        (lambda: witness.join("none", 1), "not there"),
        (lambda: witness.remove("several"), "being written"),
        (lambda: list(witness.read("several", 3)), "acks-3.log is not there"),
    ):
        with pytest.raises(WitnessError, match=why) as caught:
            call()
        assert caught.value.hint
    for number, log in enumerate(logs):
        log.append_many([ack_of(number, seq) for seq in range(1, 1001)])
    marks = [log.close() for log in logs]
    assert len({mark.digest for mark in marks}) == 3
    for number, mark in enumerate(marks):
        acks, _ = read_back(witness, "several", mark, number)
        assert acks == [ack_of(number, seq) for seq in range(1, 1001)]
    with refused(
        ErrorId.WITNESS_LOG_EXISTS,
        WitnessError,
        naming="log 1 of run several already exists",
    ):
        witness.join("several", 1)
    witness.remove("several")
    assert not place.log_path("several").parent.exists()
    for each in (witness, *copies):
        each.close()


def test_runs_are_listed_shown_and_removed(place: Place, tmp_path: Path) -> None:
    witness = place.witness(folder=tmp_path / "deep" / "logs")
    assert witness.runs() == []
    for run_id in ("b", "a"):
        witness.create(run_id, run_id.encode()).close()
    assert witness.runs() == ["b", "a"]
    assert witness.manifest("a") == b"a"
    witness.remove("b")
    assert witness.runs() == ["a"]
    for call, why in (
        (lambda: witness.manifest("b"), "/b/manifest"),
        (lambda: list(witness.read("b")), "/b/acks.log"),
        (lambda: witness.remove("b"), "/b"),
        (lambda: witness.remove("../a"), "not a run id: '../a'"),
        (lambda: witness.create("../a", b""), "not a run id: '../a'"),
        (lambda: witness.create("c", bytes(5 << 20)), "too long"),
    ):
        with pytest.raises(WitnessError, match=why):
            call()
    witness.close()


def test_facts_and_probe(place: Place) -> None:
    witness = place.witness()
    facts = witness.facts()
    assert facts.boot_id == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert facts.hostname == os.uname().nodename
    assert facts.folder == str(place.folder)
    assert facts.filesystem and facts.free_bytes > 0 and facts.clock_us > 10**15
    assert "127.0.0.1" not in facts.addresses
    durations_s = witness.probe(20)
    assert len(durations_s) == 20
    assert all(0 < duration_s < 10 for duration_s in durations_s)
    with refused(ErrorId.AGENT_FAILED, WitnessError, naming="0 times"):
        witness.probe(0)
    witness.close()


def test_a_reader_that_stops_early_leaves_no_agent(place: Place) -> None:
    witness = place.witness()
    log = witness.create("early", b"{}")
    append_from_threads(log, sessions=2, each=30_000)
    log.close()
    chunks = witness.read("early")
    next(chunks)
    chunks.close()  # type: ignore[attr-defined]
    wait_until(lambda: not place.agents(), "the agent of the reader is gone")
    witness.close()


def test_a_folder_that_cannot_be_written_is_told(place: Place) -> None:
    witness = place.witness(folder=Path("/sys/dbcheck"))
    for call in (witness.facts, lambda: witness.create("r", b"")):
        with refused(
            ErrorId.WITNESS_FOLDER_NOT_WRITABLE, WitnessError, naming="/sys/dbcheck"
        ) as caught:
            call()
        assert "folder" in caught.value.hint
    witness.close()


def test_a_killed_agent_has_all_that_it_confirmed(place: Place) -> None:
    witness = place.witness()
    log = witness.create("agent-killed", b"{}")
    seq = 0
    with refused(ErrorId.AGENT_ENDED, WitnessError, naming="ended") as caught:
        while True:
            seq += 1
            log.append(ack_of(1, seq))
            if seq == 20_000:
                [pid] = place.agents()
                os.kill(pid, signal.SIGKILL)
    assert caught.value.hint
    with refused(ErrorId.AGENT_ENDED, WitnessError, naming="ended"):
        log.append(ack_of(1, seq))
    with refused(ErrorId.AGENT_ENDED, WitnessError, naming="ended"):
        log.note({})
    with refused(ErrorId.AGENT_ENDED, WitnessError, naming="ended"):
        log.close()
    mark = log.watermark()
    acks, _ = read_back(witness, "agent-killed", mark)
    assert acks == [ack_of(1, n) for n in range(1, len(acks) + 1)]
    assert mark.acks <= len(acks) <= seq
    witness.close()


def test_an_agent_that_hangs_is_given_up(place: Place) -> None:
    witness = place.witness(limits=WindowLimits(acks=100, age_s=0.2))
    log = witness.create("hanging", b"{}")
    log.append(ack_of(1, 1))
    log.note({})
    [pid] = place.agents()
    os.kill(pid, signal.SIGSTOP)
    give_up_after(log, 0.5)
    try:
        with refused(ErrorId.WITNESS_NOT_CONFIRMING, WitnessError, naming="0.5"):
            append_until_it_fails(log)
        with refused(
            ErrorId.WITNESS_NOT_CONFIRMING, WitnessError, naming="confirmed nothing"
        ):
            log.close()
        assert log.watermark().acks == 1
    finally:
        with contextlib.suppress(ProcessLookupError):  # what is given up is killed
            os.kill(pid, signal.SIGCONT)
    witness.close()


def test_more_than_the_channel_holds_waits_for_an_agent_that_pauses(
    place: Place,
) -> None:
    limits = WindowLimits(acks=10**6, age_s=60, silence_s=60)
    witness = place.witness(limits=limits)
    log = witness.create("pausing", b"{}")
    log.note({})
    [pid] = place.agents()
    os.kill(pid, signal.SIGSTOP)
    try:
        log.append_many([ack_of(1, seq) for seq in range(1, 300_001)])
        wait_until(lambda: log.behind_s() > 1.5, "it has paused for a while")
    finally:
        os.kill(pid, signal.SIGCONT)
    mark = log.close()
    assert mark.acks == 300_000
    assert len(read_back(witness, "pausing", mark)[0]) == 300_000
    witness.close()


def test_an_ack_that_cannot_be_logged_fails_the_log(place: Place) -> None:
    witness = place.witness()
    log = witness.create("bad-ack", b"{}")
    log.append(Ack(1, 0, 1, 1))
    with refused(ErrorId.WITNESS_LOST, WitnessError):
        log.close()
    witness.close()


CLIENT = """
import sys
from dbcheck.rows.acks import Ack
from dbcheck.remote.address import SshOptions
from dbcheck.witness.url import open_witness
from pathlib import Path
url, *files = sys.argv[1:]
keys = dict(zip(("identity_file", "known_hosts"), map(Path, files)))
options = SshOptions(**keys)
log = open_witness(url, volatile=True, options=options).create("client-killed", b"{}")
seq = 0
while True:
    seq += 1
    log.append(Ack(1, seq, seq, seq * 100))
    if seq % 1000 == 0:
        mark = log.watermark()
        sys.stdout.write(f"{mark.frames} {mark.acks} {mark.digest}\\n")
        sys.stdout.flush()
"""


def test_an_idle_agent_that_died_is_replaced(place: Place) -> None:
    witness = place.witness()
    first = witness.runs()
    [pid] = place.agents()
    assert witness.runs() == first
    assert place.agents() == [pid]
    os.kill(pid, signal.SIGKILL)
    assert witness._idle
    wait_until(lambda: not (witness._idle and witness._idle.is_alive()), "it is seen")
    assert witness.runs() == first
    witness.close()


def test_a_killed_client_leaves_a_sound_log_and_no_agent(place: Place) -> None:
    witness = place.witness()
    command = [sys.executable, "-c", CLIENT, witness.url]
    if place.sshd:
        command += [str(place.sshd.identity_file), str(place.sshd.known_hosts)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as client:
        assert client.stdout
        for _ in range(30):
            frames, acks, digest = client.stdout.readline().split()
        client.kill()
    mark = Watermark(int(frames), int(acks), digest)
    wait_until(lambda: not agents_of("client-killed", place), "its agent is gone")
    scan = LogScan(witness.read("client-killed"), "client-killed", mark)
    found = sum(len(entry.acks) for entry in scan if isinstance(entry, AckBatch))
    assert found >= mark.acks > 0
    witness.remove("client-killed")  # nobody holds it any more
    witness.close()


def agents_of(run_id: str, place: Place) -> list[str]:
    """Return the processes, of whatever parent, that have the log of *run_id* open."""
    path = str(place.log_path(run_id))
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it ends, or is not ours to look into
            for link in (process / "fd").iterdir():
                with contextlib.suppress(OSError):
                    if os.readlink(link) == path:
                        found.append(str(link))
    return found


@pytest.mark.root
def test_a_full_disk_is_told_and_claims_nothing(place: Place, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "dbcheck-test", str(disk)]
    subprocess.run(mount, check=True)
    try:
        witness = place.witness(folder=disk / "logs")
        assert witness.facts().filesystem == "tmpfs"
        log = witness.create("full-disk", b"{}")
        with refused(
            ErrorId.WITNESS_DISK_FULL, WitnessError, naming="No space left"
        ) as caught:
            append_until_it_fails(log)
        assert "Make room" in caught.value.hint
        with refused(ErrorId.WITNESS_DISK_FULL, WitnessError, naming="No space left"):
            log.close()
        mark = log.watermark()
        acks, _ = read_back(witness, "full-disk", mark)
        assert len(acks) >= mark.acks > 10_000
        with refused(ErrorId.WITNESS_DISK_FULL, WitnessError, naming="No space left"):
            witness.create("another", bytes(1 << 20))
        assert witness.runs() == ["full-disk"]
        witness.close()
    finally:
        wait_until(lambda: not place.agents(), "the agents are gone")
        subprocess.run(["umount", str(disk)], check=True)


def append_until_it_fails(log: WitnessLog) -> None:
    seq = 0
    while True:
        seq += 1
        log.append(ack_of(1, seq))
