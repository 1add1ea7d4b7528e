"""Canaries on a real filesystem, started over SSH and here, and what a client sees."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from dbcheck.agent.host.canary import BLOCK_BYTES, parse_number
from dbcheck.agent.host.folder import BESIDE
from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import HostError
from dbcheck.cycle.host import inspect_host_again
from dbcheck.hosts.canary import Canaries
from dbcheck.hosts.host import TargetHost, open_host
from dbcheck.lab.ssh.sshd import Sshd
from dbcheck.model.depth import Depth, find_depth, find_last_write_us
from dbcheck.model.host import HostBefore
from dbcheck.ports.listener import Phase
from dbcheck.remote.address import SshOptions
from tests.kit.canaries import EXT4, QUICK, is_free, judge, wrote
from tests.kit.partial_rig import RecordingListener, node_of
from tests.kit.proxy import PASS_ON, Proxy
from tests.kit.refusals import refused
from tests.kit.samples import MANIFEST
from tests.kit.waiting import wait_until
from tests.kit.witnesses import SERVERS, Place, running_sshd


@pytest.fixture(scope="module", params=[*SERVERS, "local"])
def sshd(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Sshd | None]:
    if request.param == "local":
        yield None
        return
    with running_sshd(tmp_path_factory.mktemp("ssh") / "sshd", request.param) as sshd:
        yield sshd


def reach(sshd: Sshd | None, port: int = 0) -> TargetHost:
    """Return this machine as a host; port: of a proxy before its sshd."""
    if sshd is None:
        return open_host("local:")
    known_hosts = sshd.known_hosts
    if port:
        known = known_hosts.read_text().replace(f"]:{sshd.port} ", f"]:{port} ")
        known_hosts = known_hosts.with_name("known_hosts-of-the-proxy")
        known_hosts.write_text(known)
    return open_host(
        f"ssh://{sshd.user}@{sshd.host}:{port or sshd.port}",
        options=SshOptions(
            identity_file=sshd.identity_file,
            known_hosts=known_hosts,
            config_file=Path("/dev/null"),
        ),
    )


@pytest.fixture
def host(sshd: Sshd | None) -> Iterator[TargetHost]:
    with contextlib.closing(reach(sshd)) as reached:
        yield reached


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "parent" / "data"
    folder.mkdir(parents=True)
    return folder


def now_us() -> int:
    return time.monotonic_ns() // 1000


def run(host: TargetHost, data: Path, number: int = 100) -> Canaries:
    canaries = host.start_canaries(str(data), pace=QUICK)
    wait_until(lambda: wrote(canaries, number), f"{number} of each")
    canaries.stop()
    assert canaries.failure == ""
    return canaries


def test_without_a_cut_everything_is_there(host: TargetHost, data: Path) -> None:
    for _ in range(2):  # the second replaces what the first left
        canaries = run(host, data)
        assert canaries.folder == str(data.parent / BESIDE)
        finding = judge(host, canaries)
        assert finding.depth is Depth.PROCESS
        assert finding.buffered.checked >= 100
        assert finding.direct.checked == 2 * QUICK.ring_blocks // 2
    host.remove_canaries(canaries.folder)
    host.remove_canaries(canaries.folder)  # twice is fine
    assert list(data.parent.iterdir()) == [data]


def test_buffered_records_are_kept_in_two_files(host: TargetHost, data: Path) -> None:
    canaries = run(host, data, number=3 * QUICK.file_bytes // 64)
    files = list(Path(canaries.folder).glob("buffered-*"))
    assert len(files) == 2
    assert judge(host, canaries).depth is Depth.PROCESS


def test_lost_records_and_blocks_are_seen(host: TargetHost, data: Path) -> None:
    canaries = run(host, data)
    folder = Path(canaries.folder)
    newest = max(folder.glob("buffered-*"))
    newest.write_bytes(newest.read_bytes()[:-64])
    finding = judge(host, canaries)
    assert (finding.depth, finding.buffered.lost) == (Depth.OS, 1)
    slot = (canaries.completed().direct[1].last - 1) % QUICK.ring_blocks
    with (folder / "direct-2").open("r+b") as file:
        file.seek(slot * BLOCK_BYTES)
        file.write(bytes(BLOCK_BYTES))
    finding = judge(host, canaries)
    assert (finding.depth, finding.direct.lost) == (Depth.DRIVE, 1)


def test_another_runs_canaries_are_not_taken_for_ours(
    host: TargetHost, data: Path
) -> None:
    first = run(host, data)
    second = run(host, data)
    assert judge(host, second).depth is Depth.PROCESS
    assert "another run" in judge(host, first).reasons[0]
    host.remove_canaries(second.folder)
    assert "does not hold" in judge(host, second).reasons[0]


def newest(canaries: Canaries) -> int:
    """Return the newest block of a ring that is being written."""
    ring = (Path(canaries.folder) / "direct-1").read_bytes()
    starts = range(0, len(ring), BLOCK_BYTES)
    nonce = bytes.fromhex(canaries.nonce)
    return max(parse_number(ring[at : at + BLOCK_BYTES], nonce) or 0 for at in starts)


@pytest.mark.parametrize("sshd", SERVERS, indirect=True)
def test_blocks_show_how_long_a_host_wrote_after_its_network_failed(
    sshd: Sshd, data: Path
) -> None:
    """The proxy passes nothing for two seconds of blocks, then ends the connection."""
    with (
        Proxy(sshd.port, lambda _: PASS_ON) as proxy,
        contextlib.closing(reach(sshd, proxy.port)) as far,
    ):
        canaries = far.start_canaries(str(data), pace=QUICK)
        wait_until(lambda: wrote(canaries, 100), "100 of each")
        proxy.go_dark()
        dark_us = now_us()
        more = newest(canaries) + 2 * QUICK.direct_per_s // QUICK.rings
        wait_until(lambda: newest(canaries) > more, "blocks of two seconds")
        proxy.kill()
        canaries.stop()
    assert not canaries.answered()
    with contextlib.closing(reach(sshd)) as host:
        wait_until(lambda: is_free(Path(canaries.folder)), "the agent has ended")
        ended_us = now_us()
        left = host.read_canaries(canaries.folder, canaries.nonce)
        host.remove_canaries(canaries.folder)
    done = canaries.completed()
    until_us = find_last_write_us(done, left)
    assert done.as_of_us is not None
    assert until_us is not None
    # Late by one delay of the network at most.
    assert done.as_of_us < dark_us + 1_000_000
    assert done.as_of_us + 1_900_000 < until_us <= ended_us


def test_one_pair_of_canaries_at_a_time(host: TargetHost, data: Path) -> None:
    canaries = host.start_canaries(str(data), pace=QUICK)
    try:
        with refused(
            ErrorId.CANARIES_IN_USE, HostError, naming="are writing"
        ) as caught:
            host.start_canaries(str(data), pace=QUICK)
        assert "other run" in caught.value.hint
        with refused(ErrorId.CANARIES_IN_USE, HostError, naming="are writing"):
            host.remove_canaries(canaries.folder)
    finally:
        canaries.stop()


def test_canaries_end_with_their_client(
    host: TargetHost, sshd: Sshd | None, data: Path
) -> None:
    place = Place(data, sshd)
    wait_until(lambda: not place.agents(), "earlier agents are gone")
    canaries = host.start_canaries(str(data), pace=QUICK)
    wait_until(lambda: wrote(canaries, 10), "they write")
    assert place.agents()
    canaries._channel.close()  # as if the client, or the network, had died
    wait_until(lambda: not place.agents(), "the agent is gone")
    canaries.stop()
    assert canaries.failure
    assert judge(host, canaries).depth is Depth.PROCESS  # the evidence stays


def test_a_host_tells_its_facts_and_why_some_are_not_known(
    host: TargetHost, data: Path
) -> None:
    facts = host.facts(str(data))
    assert facts.boot_id == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert facts.data_directory == str(data)
    volume = facts.data
    assert volume.filesystem
    assert facts.uptime_s
    for layer in volume.layers:
        assert layer.write_cache in ("write back", "write through")
    known = bool(volume.filesystem_uuid)
    assert known == ("filesystem_uuid" not in volume.unreadable)
    for drive in volume.drives:
        if drive.unsafe_shutdowns is None:
            assert volume.unreadable[f"{drive.name}.counters"]


def test_a_data_directory_that_is_not_there_is_told(
    host: TargetHost, tmp_path: Path
) -> None:
    missing = str(tmp_path / "none" / "data")
    with refused(
        ErrorId.HOST_PATH_MISSING, HostError, naming="none/data: No such file"
    ) as caught:
        host.facts(missing)
    assert "Check the path" in caught.value.hint
    with refused(ErrorId.HOST_PATH_MISSING, HostError, naming="No such file"):
        host.start_canaries(missing)


def test_a_server_log_is_followed(host: TargetHost, tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_text("old\n")
    marks = host.mark_log(str(log))
    with log.open("a") as file:
        file.write("database system was interrupted\n")
    assert host.read_log(str(log), marks).text == "database system was interrupted\n"
    with refused(ErrorId.HOST_PATH_MISSING, HostError, naming="No such file"):
        host.mark_log(str(tmp_path / "none"))


def test_a_host_is_reached_once(host: TargetHost, data: Path) -> None:
    host.close()
    host.reach()
    agent = host._channel
    assert agent is not None
    host.reach()
    host.facts(str(data))
    assert host._channel is agent


class Starter(RecordingListener):
    """Starts the SSH server as soon as it is told that nobody answers."""

    def __init__(self, sshd: Sshd) -> None:
        super().__init__()
        self._sshd = sshd

    def phase(self, phase: Phase, detail: str) -> None:
        super().phase(phase, detail)
        self._sshd._launch(self._sshd._command())


def test_an_ssh_server_that_starts_after_the_database_is_waited_for(
    tmp_path: Path, data: Path
) -> None:
    log = tmp_path / "server.log"
    log.touch()
    with (
        running_sshd(tmp_path / "sshd", "openssh") as sshd,
        contextlib.closing(reach(sshd)) as host,
    ):
        facts, marks = host.facts(str(data)), host.mark_log(str(log))
        canaries = run(host, data)
        before = HostBefore(facts, canaries.folder, canaries.nonce, str(log), marks)
        host.close()
        sshd.close()
        log.write_text("database system was interrupted\n")
        listener = Starter(sshd)
        after = inspect_host_again(
            node_of(host=host), listener, replace(MANIFEST.writer, host=before)
        )
    assert len(listener.phases) == 1
    assert after is not None
    assert after.failure == ""
    assert after.facts is not None
    assert after.facts.boot_id == facts.boot_id
    assert after.log is not None
    assert after.log.text == "database system was interrupted\n"
    assert after.remains is not None
    finding = find_depth(canaries.completed(), after.remains, EXT4)
    assert finding.depth is Depth.PROCESS
    assert not Path(canaries.folder).exists()
