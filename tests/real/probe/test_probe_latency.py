"""dbcheck probe latency on real files: what it writes, and how long that takes."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import HostError
from dbcheck.cycle.own_data import require_data_directory
from dbcheck.engines.registry import open_engine
from dbcheck.hosts.host import TargetHost, open_host
from dbcheck.lab.spec import DriveSpec, LabSpec
from dbcheck.model.flushes import Method, Shape
from dbcheck.probe.latency import MAIN, FileioResult, Spread
from dbcheck.probe.measure_latency import Effort, probe_server
from tests.kit.labs import lab_of
from tests.kit.refusals import refused
from tests.kit.waiting import wait_until
from tools.docs.schema import FOLDER

COUNT = 20


@pytest.fixture
def host() -> Iterator[TargetHost]:
    """This machine, over an agent of its own."""
    host = open_host("local:")
    with contextlib.closing(host):
        yield host


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder on a disk: /tmp may be memory, which has no O_DIRECT everywhere."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as name:
        yield Path(name)


@pytest.mark.parametrize("method", list(Method))
@pytest.mark.parametrize("size", [1, 512, 131072])
@pytest.mark.parametrize("offset", [0, 512])
def test_each_kind_of_write_is_timed_or_refused(
    host: TargetHost, folder: Path, method: Method, size: int, offset: int
) -> None:
    timed = host.time_writes(str(folder), Shape(method, size, offset), [], COUNT, 20.0)
    if method is Method.DIRECT and timed.why:  # its blocks are larger
        assert timed.took_ns == ()
        assert size == 1 or offset or size < 4096
        return
    assert len(timed.took_ns) == COUNT, timed.why
    assert min(timed.took_ns) > 0
    assert list(folder.iterdir()) == []


def test_writes_end_after_their_time(host: TargetHost, folder: Path) -> None:
    shape = Shape(Method.FDATASYNC, 8192, 0)
    timed = host.time_writes(str(folder), shape, [], 10**9, 0.05)
    assert timed.took_ns
    assert sum(timed.took_ns[:-1]) < 50_000_000


def test_a_folder_that_is_not_there_is_an_error(host: TargetHost) -> None:
    with refused(ErrorId.HOST_PATH_MISSING, HostError, naming="nowhere"):
        host.time_writes("/nowhere", Shape(Method.FSYNC, 1, 0), [], 1, 1.0)


def test_a_write_beyond_the_file_is_refused(host: TargetHost, folder: Path) -> None:
    with refused(ErrorId.AGENT_FAILED, HostError, naming="too many"):
        shape = Shape(Method.FSYNC, 1 << 19, 1 << 20)
        host.time_writes(str(folder), shape, [], 1, 1.0)


@pytest.mark.root
def test_a_flush_takes_at_least_as_long_as_the_drive_needs(tmp_path: Path) -> None:
    """The virtual drive takes 20 ms for each; one that does not flush takes none."""
    took: dict[str, Spread] = {}
    for personality in ("honest", "lying"):
        drive = DriveSpec(personality=personality, flush_ms=20)
        with lab_of(LabSpec("postgresql", drive=drive), tmp_path) as lab:
            place = open_host(lab.host_url, lab.ssh)
            with contextlib.closing(place):
                shape = Shape(Method.FDATASYNC, 8192, 0)
                engine = open_engine(lab.target_url, lab.password)
                data = require_data_directory(engine.facts())
                timed = place.time_writes(data, shape, [], COUNT, 20.0)
        took[personality] = Spread.of(timed.took_ns)
    assert took["honest"].p50_us >= 20_000
    assert took["lying"].p50_us < took["honest"].p50_us


@pytest.mark.wide_with("False")
@pytest.mark.root
@pytest.mark.parametrize(
    ("everywhere", "places"),
    [(False, {"redo log"}), (True, {"redo log", "data"})],
)
def test_it_writes_where_the_log_is_or_on_every_filesystem(
    everywhere: bool, places: set[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    effort = Effort([MAIN], COUNT, "2026-01-01")
    with lab_of(LabSpec("mariadb", log_drive=True), tmp_path) as lab:
        engine = open_engine(lab.target_url, lab.password)
        with contextlib.closing(open_host(lab.host_url, lab.ssh)) as host:
            result = probe_server(engine, host, effort, "", everywhere=everywhere)
    assert {each.places[0] for each in result.folders} == places
    for each in result.folders:
        assert each.main is not None
        assert each.main.writes == COUNT
        assert each.advice
        (share,) = each.timings[0].device_shares.values()
        assert share is not None


# ------------------------------------------------------------- the command


def command(folder: Path, *more: str) -> list[str]:
    words = ["probe", "latency", "--target-host", "local:", "--dir", str(folder)]
    return [sys.executable, "-m", "dbcheck", *words, *more]


@pytest.fixture
def state(tmp_path: Path) -> dict[str, str]:
    """An environment whose earlier probes are its own."""
    return {**os.environ, "XDG_STATE_HOME": str(tmp_path / "state")}


def test_the_second_probe_is_compared_with_the_first(
    folder: Path, state: dict[str, str]
) -> None:
    words = command(folder, "--writes", "10")
    first, second = (
        subprocess.run(words, env=state, capture_output=True, text=True)
        for _ in range(2)
    )
    assert first.returncode == second.returncode == 0, first.stderr + second.stderr
    assert "times as long" not in first.stdout
    assert "times as long" in " ".join(second.stdout.split())
    assert "Only a power cut finds that" in " ".join(second.stdout.split())


def test_json_follows_its_schema(folder: Path, state: dict[str, str]) -> None:
    words = command(folder, "--writes", "10", "--json")
    done = subprocess.run(words, env=state, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    jsonschema.validate(found, json.loads((FOLDER / "probe-latency.json").read_text()))
    (target,) = found["targets"]
    (where,) = target["folders"]
    assert where["folder"] == str(folder)
    assert len(where["timings"]) == 16


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_nothing_of_a_probe_that_is_ended_stays(
    folder: Path, state: dict[str, str], number: int
) -> None:
    words = command(folder, "--writes", "100000")
    with subprocess.Popen(
        words, env=state, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as client:
        wait_until(lambda: bool(writing(folder)), "a file without a name is open")
        client.send_signal(number)
        _, err = client.communicate(timeout=60)
        wait_until(lambda: not writing(folder), "the host's agent has ended")
    assert "Traceback" not in err
    assert list(folder.iterdir()) == []


def writing(folder: Path) -> list[str]:
    """Return what processes have open in *folder*, without a name by now."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it may end meanwhile
            for link in os.scandir(process / "fd"):
                with contextlib.suppress(OSError):
                    found.append(os.readlink(link))
    return [each for each in found if each.startswith(f"{folder}/")]


@pytest.mark.parametrize("flushed", [True, False])
def test_random_writes_by_fio(host: TargetHost, folder: Path, flushed: bool) -> None:
    text, why = host.fileio(str(folder), 4, flushed=flushed, time_s=1)
    found = FileioResult.of(4, flushed, text, why)
    assert not found.why
    assert found.writes_per_s > 0
    assert (found.sync_p50_us is not None) == flushed
    assert list(folder.iterdir()) == []


def test_a_host_whose_fio_fails_says_so(host: TargetHost, folder: Path) -> None:
    text, why = host.fileio(str(folder), 0, flushed=True, time_s=1)
    assert text == ""
    assert why.startswith("fio: ")


def test_a_directory_needs_its_host(state: dict[str, str]) -> None:
    words = [sys.executable, "-m", "dbcheck", "probe", "latency", "--dir", "/tmp"]
    done = subprocess.run(words, env=state, capture_output=True, text=True)
    assert done.returncode == 2
    assert "--target-host" in done.stderr
