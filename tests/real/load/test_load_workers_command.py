"""dbcheck run --load-workers, as a user has it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from dask import config

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import UsageError
from dbcheck.cli import FAILED, PASS, USAGE
from dbcheck.lab.lab import Lab
from dbcheck.load import dask_cluster
from tests.kit.certificates import Authority
from tests.kit.dask_cluster import Cluster, cluster
from tests.kit.labs import process_lab
from tests.kit.refusals import refused
from tests.kit.waiting import wait_until

pytestmark = pytest.mark.wide

QUICK = 'plan = "insert"\npayload_bytes = [200]\nsessions = 4\n'


@pytest.fixture
def lab() -> Iterator[Lab]:
    # Not below pytest's folder, which may be in memory, where no witness keeps acks.
    with (
        tempfile.TemporaryDirectory(dir="/var/tmp", prefix="dbcheck-") as base,
        Lab.start(process_lab("postgresql"), Path(base, "lab")) as started,
    ):
        yield started


def run(
    lab: Lab, folder: Path, address: str, cut_after_s: float, *more: str
) -> subprocess.Popen[str]:
    cut = f"cut_after_s = [{cut_after_s}, {cut_after_s}]\n"
    (folder / "quick.toml").write_text(QUICK + cut)
    words = ["--target", lab.target_url, "--power", f"lab:{lab.name}"]
    words += ["--witness", lab.witness_url, "--identity", str(lab.identity_file)]
    words += ["--known-hosts", str(lab.known_hosts), "--workload", "quick.toml"]
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "dbcheck", "run", "--load-workers", address]
        + [*words, *more],
        cwd=folder,
        env={**os.environ, "DBCHECK_PASSWORD": lab.password},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def dbcheck(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-P", "-m", "dbcheck", *words],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
    )


def ended(command: subprocess.Popen[str]) -> tuple[int, str, str]:
    said, errors = command.communicate(timeout=120)
    return command.returncode, said, errors


def test_a_run_on_two_workers(lab: Lab, tmp_path: Path) -> None:
    given = {"DBCHECK_PASSWORD": lab.password}
    with cluster(tmp_path / "dask", 2, given) as made:
        code, said, errors = ended(run(lab, tmp_path, made.address, 1.0, "--json"))
        assert code == PASS, errors
        result = json.loads(said)
        assert made.loading() == []
        assert lab.password not in made.logs() + said + errors
    assert result["verdict"] == "PASS"
    (stored,) = (tmp_path / "runs").glob("*/manifest.json")
    manifest = json.loads(stored.read_text())
    assert (manifest["logs"], manifest["own_clocks"]) == (3, True)
    for words in (
        ["reconcile", str(stored.parent), "--offline"],
        ["bundle", str(stored.parent), "-o", "run.dbcheck.tar"],
        ["verify", "run.dbcheck.tar"],
    ):
        done = dbcheck(tmp_path, *words)
        assert done.returncode == PASS, done.stdout + done.stderr


def test_a_scheduler_that_dies_is_named_in_plain_words(
    lab: Lab, tmp_path: Path
) -> None:
    given = {"DBCHECK_PASSWORD": lab.password}
    with cluster(tmp_path / "dask", 2, given) as made:
        command = run(lab, tmp_path, made.address, 600.0)
        wait_until(lambda: len(made.loading()) == 2, "the load")
        assert made.scheduler is not None
        os.killpg(made.scheduler.pid, signal.SIGKILL)
        code, said, errors = ended(command)
    assert code == FAILED, said
    assert "dbcheck: the Dask worker tcp://127.0.0.1:" in errors
    # What Dask itself has to say is not for the terminal.
    assert "distributed" not in errors
    assert "Traceback" not in errors


def test_a_client_that_is_killed_leaves_no_process_on_a_worker(
    lab: Lab, tmp_path: Path
) -> None:
    given = {"DBCHECK_PASSWORD": lab.password}
    with cluster(tmp_path / "dask", 2, given) as made:
        command = run(lab, tmp_path, made.address, 600.0)
        wait_until(lambda: len(made.loading()) == 2, "the load")
        command.kill()
        ended(command)
        wait_until(lambda: made.loading() == [], "no process is left")


@pytest.mark.parametrize(
    ("address", "more", "why"),
    [
        ("10.0.0.1:8786", (), "is not the address of a Dask scheduler"),
        ("tcp://127.0.0.1:1", (), "no Dask scheduler answers at tcp://127.0.0.1:1"),
        ("tls://127.0.0.1:1", (), "needs TLS, and Dask has no certificates"),
        ("tcp://127.0.0.1:1", ("--processes", "2"), "are both given"),
    ],
)
def test_what_cannot_be_used_is_refused(
    address: str, more: Sequence[str], why: str, tmp_path: Path
) -> None:
    words = ["--target", "postgresql://x@127.0.0.1:1/x", "--witness", "file:acks"]
    done = dbcheck(tmp_path, "run", "--load-workers", address, *words, *more)
    assert done.returncode == USAGE, done.stderr
    assert why in done.stderr
    assert "Traceback" not in done.stderr


def test_a_scheduler_without_workers_is_refused(tmp_path: Path) -> None:
    with (
        cluster(tmp_path / "dask", 0) as made,
        dask_cluster.connect_client(made.address) as client,
        refused(ErrorId.SCHEDULER_WITHOUT_WORKERS, UsageError),
    ):
        dask_cluster.list_workers(client)


def of_authority(folder: Path) -> tuple[list[str], dict[str, str]]:
    """Return the flags of a cluster with certificates, and what its clients need."""
    authority = Authority.new(folder / "authority.crt")
    authority.vouch(folder)
    certificate, key = str(folder / "server.crt"), str(folder / "server.key")
    flags = ["--tls-ca-file", str(authority.path), "--tls-cert", certificate]
    of_tls = "distributed.comm.tls"
    return [*flags, "--tls-key", key], {
        f"{of_tls}.ca-file": str(authority.path),
        f"{of_tls}.client.cert": certificate,
        f"{of_tls}.client.key": key,
    }


def test_a_scheduler_is_reached_over_tls(tmp_path: Path) -> None:
    """And one whose certificate another authority made is not."""
    (tmp_path / "other").mkdir()
    flags, ours = of_authority(tmp_path)
    _, others = of_authority(tmp_path / "other")

    def versions(made: Cluster) -> None:
        with dask_cluster.connect_client(made.address) as client:
            dask_cluster.require_same_version(client, dask_cluster.list_workers(client))

    with cluster(tmp_path / "dask", 1, tls=flags) as made:
        assert made.address.startswith("tls://")
        with config.set(ours):
            versions(made)
        with config.set(others), refused(ErrorId.SCHEDULER_UNREACHABLE, UsageError):
            versions(made)
