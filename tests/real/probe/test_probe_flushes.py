"""dbcheck probe flushes on real servers: what a cut would lose is seen without one."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from dbcheck.base.errors import EngineError
from dbcheck.cli import FAIL, FAILED, INCONCLUSIVE
from dbcheck.cycle.own_data import require_data_directory
from dbcheck.engines.registry import open_engine
from dbcheck.hosts.host import TargetHost, open_host
from dbcheck.lab.lab import Lab
from dbcheck.lab.spec import DriveSpec, LabSpec
from dbcheck.probe import measure_flushes
from dbcheck.probe.flushes import Outcome
from dbcheck.probe.flushes_result import FlushesResult, VolumeResult
from dbcheck.probe.measure_flushes import probe_flushes
from dbcheck.rows.table import LEDGER
from tests.kit.lab_access import server_pid
from tests.kit.labs import lab_of
from tests.kit.waiting import wait_until
from tools.docs.schema import FOLDER

ENGINES = ("postgresql", "mariadb", "mysql")
COMMITS = 60
SEED = 7
WITHOUT_BINARY_LOG = {"skip_log_bin": "on"}


@contextlib.contextmanager
def host_of(lab: Lab) -> Iterator[TargetHost]:
    host = open_host(lab.host_url, lab.ssh)
    with contextlib.closing(host):
        yield host


def probed(lab: Lab, commits: int = COMMITS) -> FlushesResult:
    with host_of(lab) as host:
        engine = open_engine(lab.target_url, lab.password)
        return probe_flushes(engine, host, commits, SEED, "")


def only(result: FlushesResult) -> VolumeResult:
    (volume,) = result.volumes
    return volume


@pytest.mark.wide_with("mysql")
@pytest.mark.root
@pytest.mark.parametrize("engine", ENGINES)
def test_honest_defaults_flush_each_commit(engine: str, tmp_path: Path) -> None:
    with lab_of(LabSpec(engine), tmp_path) as lab:
        result = probed(lab, 200)
    volume = only(result)
    assert volume.outcome is Outcome.FLUSHED, volume.sentence
    assert volume.file_outcome is Outcome.FLUSHED, volume.file_sentence
    assert not volume.stopped_at
    (drive,) = volume.devices
    assert drive.without_flush == drive.file_unflushed == 0
    assert drive.flushes is not None
    assert drive.flushes >= result.commits == 200


LOSING = [
    pytest.param(
        LabSpec("postgresql", settings={"synchronous_commit": "off"}), id="pg-async"
    ),
    pytest.param(LabSpec("postgresql", settings={"fsync": "off"}), id="pg-fsync"),
    pytest.param(
        LabSpec("mariadb", settings={"innodb_flush_log_at_trx_commit": "0"}),
        id="mariadb-0",
    ),
    pytest.param(
        LabSpec("mariadb", settings={"innodb_flush_log_at_trx_commit": "2"}),
        id="mariadb-2",
    ),
    pytest.param(
        LabSpec(
            "mysql",
            settings={"innodb_flush_log_at_trx_commit": "2", **WITHOUT_BINARY_LOG},
        ),
        id="mysql-2",
    ),
]


@pytest.mark.wide_with("mysql-2", "mariadb-0")
@pytest.mark.root
@pytest.mark.parametrize("spec", LOSING)
def test_a_server_that_does_not_ask_for_a_flush_is_named(
    spec: LabSpec, tmp_path: Path
) -> None:
    with lab_of(spec, tmp_path) as lab:
        volume = only(probed(lab))
    assert volume.outcome is Outcome.MISSING, volume.sentence
    assert volume.server_does_not_ask


@pytest.mark.root
@pytest.mark.parametrize(
    ("spec", "stopped_at"),
    [
        pytest.param(
            LabSpec("postgresql", filesystem="ext4", mount_options="barrier=0"),
            "nobarrier) passes none on to loop",
            id="barrier=0",
        ),
        pytest.param(
            LabSpec("postgresql", write_cache="write through"),
            "drops them: its kernel takes it to have no volatile write cache",
            id="write through",
        ),
    ],
)
def test_what_swallows_flushes_is_named(
    spec: LabSpec, stopped_at: str, tmp_path: Path
) -> None:
    with lab_of(spec, tmp_path) as lab:
        volume = only(probed(lab))
    assert volume.outcome is volume.file_outcome is Outcome.MISSING, volume.sentence
    assert stopped_at in volume.stopped_at
    assert not volume.server_does_not_ask


@pytest.mark.wide
@pytest.mark.root
@pytest.mark.parametrize("setting", ["innodb_flush_log_at_trx_commit", "sync_binlog"])
def test_flushes_of_the_other_log_prove_nothing(setting: str, tmp_path: Path) -> None:
    """MySQL keeps both logs on one filesystem, and flushes one of them here."""
    unsafe = {"innodb_flush_log_at_trx_commit": "2", "sync_binlog": "0"}
    spec = LabSpec("mysql", settings={setting: unsafe[setting]})
    with lab_of(spec, tmp_path) as lab:
        volume = only(probed(lab))
    assert volume.outcome is Outcome.UNCLEAR
    assert f"{setting} is {unsafe[setting]}" in volume.sentence


@pytest.mark.root
def test_the_log_on_a_drive_of_its_own_is_what_is_counted(tmp_path: Path) -> None:
    with lab_of(LabSpec("mariadb", log_drive=True), tmp_path) as lab:
        volume = only(probed(lab))
    assert volume.places == ("redo log",)
    assert volume.mount_point.endswith("/log")
    assert volume.outcome is Outcome.FLUSHED, volume.sentence


def seen_from_outside(lab: Lab) -> Path:
    """Return the path of the data directory, which is mounted for the lab alone."""
    engine = open_engine(lab.target_url, lab.password)
    data = require_data_directory(engine.facts())
    return Path(f"/proc/{server_pid(lab)}/root{data}")


@pytest.mark.root
def test_a_program_that_flushes_all_the_time_hides_nothing(tmp_path: Path) -> None:
    """Commits that flush nothing beside flushes of others are not called flushed."""
    spec = LabSpec(
        "postgresql",
        settings={"synchronous_commit": "off"},
        drive=DriveSpec(flush_ms=0),
    )
    over = threading.Event()

    def flush(folder: Path) -> None:
        with tempfile.TemporaryFile(dir=folder) as file:
            while not over.is_set():
                file.write(b"x")
                file.flush()
                os.fdatasync(file.fileno())

    with lab_of(spec, tmp_path) as lab, host_of(lab) as host:
        engine = open_engine(lab.target_url, lab.password)
        noise = threading.Thread(target=flush, args=(seen_from_outside(lab),))
        noise.start()
        try:
            result = probe_flushes(engine, host, COMMITS, SEED, "")
        finally:
            over.set()
            noise.join()
    assert only(result).outcome is not Outcome.FLUSHED, only(result).sentence


# ------------------------------------------------------------- the command


def command(lab: Lab, folder: Path, *more: str) -> list[str]:
    """Return the command that probes a lab, which is in an inventory."""
    dbcheck = [sys.executable, "-m", "dbcheck"]
    host = {
        "dbcheck_target": lab.target_url,
        "dbcheck_password_command": [*dbcheck, "lab", "password", lab.name],
        "dbcheck_ask_host": False,
        "dbcheck_power": "lab",
        "dbcheck_power_lab": lab.name,
    }
    inventory = folder / "inventory.yml"
    inventory.write_text(json.dumps({"all": {"hosts": {lab.name: host}}}))
    words = ["probe", "flushes", lab.name, "--inventory", str(inventory), *more]
    return [*dbcheck, *words]


def printed(lab: Lab, folder: Path, *more: str) -> tuple[int, str, str]:
    words = command(lab, folder, *more)
    done = subprocess.run(words, capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


@contextlib.contextmanager
def running(lab: Lab, folder: Path) -> Iterator[subprocess.Popen[str]]:
    """Give a probe that has begun to commit, and goes on for minutes."""
    words = command(lab, folder, "--commits", "100000")
    pipe = subprocess.PIPE
    with subprocess.Popen(words, stdout=pipe, stderr=pipe, text=True) as client:
        wait_until(lambda: rows(lab) > 20, "it commits")
        yield client


def rows(lab: Lab) -> int:
    """Return how many rows the ledger holds, 0 before it is there."""
    engine = open_engine(lab.target_url, lab.password)
    try:
        batches = [batch for _, batch in engine.survivors([LEDGER])]
    except EngineError:
        return 0
    return sum(len(batch) for batch in batches)


@pytest.mark.root
def test_a_lying_drive_passes_and_the_report_says_so(tmp_path: Path) -> None:
    """It answers as an honest one does; the exit code is that of one, too."""
    lying = LabSpec("postgresql", drive=DriveSpec(personality="lying"))
    with lab_of(lying, tmp_path) as lab:
        code, out, _ = printed(lab, tmp_path, "--commits", "60")
    words = " ".join(out.split())
    assert code == 0, out
    assert "each commit was flushed" in words
    assert "Only a power cut finds that" in words


@pytest.mark.root
def test_json_follows_its_schema(tmp_path: Path) -> None:
    spec = LabSpec("postgresql", settings={"fsync": "off"})
    with lab_of(spec, tmp_path) as lab:
        code, out, err = printed(lab, tmp_path, "--commits", "30", "--json")
    assert code == 1, out + err
    found: dict[str, Any] = json.loads(out)
    jsonschema.validate(found, json.loads((FOLDER / "probe-flushes.json").read_text()))
    (target,) = found["targets"]
    assert target["volumes"][0]["outcome"] == "commits without a flush"
    assert "commits 30 rows to dbcheck's table" in err


@pytest.mark.root
@pytest.mark.parametrize("setting", ["on", "off"])
def test_a_host_that_cannot_be_read_is_no_success(setting: str, tmp_path: Path) -> None:
    """Beside others it is not known; a commit without a flush is found all the same."""
    with lab_of(LabSpec("postgresql", settings={"fsync": setting}), tmp_path) as lab:
        words = command(lab, tmp_path, "--commits", "30", "--json")
        inventory = tmp_path / "inventory.yml"
        written = json.loads(inventory.read_text())
        hosts = written["all"]["hosts"]
        address = {"ansible_host": "127.0.0.1", "ansible_port": 1}
        password = hosts[lab.name]["dbcheck_password_command"]
        hosts["dark"] = {
            # The server once more, by a URL that is spelled otherwise.
            "dbcheck_target": lab.target_url.replace("+psycopg2", "", 1),
            "dbcheck_password_command": password,
            **address,
        }
        inventory.write_text(json.dumps(written))
        latency = [*words[:4], "latency", *words[5:-3], "--writes", "10", "--json"]
        both = subprocess.run([*words, "dark"], capture_output=True, text=True)
        alone = [word if word != lab.name else "dark" for word in words]
        none = subprocess.run(alone, capture_output=True, text=True)
        timed = subprocess.run([*latency, "dark"], capture_output=True, text=True)
    assert both.returncode == (INCONCLUSIVE if setting == "on" else FAIL), both.stderr
    assert timed.returncode == INCONCLUSIVE, timed.stderr
    for done in (both, timed):
        read, unread = json.loads(done.stdout)["targets"]
        assert (read["error"], unread["error_id"]) == ("", "host-unreachable")
    assert none.returncode == FAILED, none.stderr


@pytest.mark.root
def test_a_log_that_the_host_does_not_show_is_not_called_flushed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = measure_flushes.read_server_facts
    unseen = {"binary log": "/log: Permission denied"}
    monkeypatch.setattr(
        measure_flushes,
        "read_server_facts",
        lambda *given: replace(read(*given), unseen=unseen),
    )
    with lab_of(LabSpec("postgresql"), tmp_path) as lab:
        result = probed(lab)
    assert only(result).outcome is Outcome.FLUSHED  # of the log that was read
    assert (result.outcome, result.unread) == (Outcome.UNCLEAR, unseen)


@pytest.mark.root
def test_a_server_that_ends_in_the_middle_is_no_traceback(tmp_path: Path) -> None:
    spec = LabSpec("postgresql")
    with lab_of(spec, tmp_path) as lab, running(lab, tmp_path) as client:
        os.kill(server_pid(lab), signal.SIGKILL)
        out, err = client.communicate(timeout=60)
    assert client.returncode == 4, err
    assert "not probed" in out
    assert "Traceback" not in out + err


@pytest.mark.root
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_nothing_of_a_probe_that_is_ended_stays(number: int, tmp_path: Path) -> None:
    with lab_of(LabSpec("postgresql"), tmp_path) as lab:
        with running(lab, tmp_path) as client:
            client.send_signal(number)
            _, err = client.communicate(timeout=60)
        assert client.returncode == (4 if number == signal.SIGINT else -number)
        assert "Traceback" not in err
        data = seen_from_outside(lab)
        kept = [path.name for path in (*data.iterdir(), *(data / "pg_wal").iterdir())]
        assert not [name for name in kept if "dbcheck" in name]
