"""dbcheck lab run --restore: a lab's server is copied, and its copy restored beside it.

Nothing of it is left, however it ends.
"""

from __future__ import annotations

import contextlib
import json
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import EngineError
from dbcheck.base.points import Point
from dbcheck.base.processes import make_environment
from dbcheck.cycle.cycle import run_cycle
from dbcheck.lab import state
from dbcheck.lab.copies import LabCopies
from dbcheck.lab.lab import Lab
from dbcheck.lab.machine import SERVERS
from dbcheck.lab.process import Process
from dbcheck.lab.restoring.methods import MethodName, find_program
from dbcheck.lab.restoring.registry import METHODS
from dbcheck.lab.spec import LabSpec
from dbcheck.ports.site import CopyPrograms
from dbcheck.report.console import make_progress_console
from dbcheck.report.progress import PlainProgress
from dbcheck.runner.lab_cycles import LIMITS
from dbcheck.runner.lab_restores import make_restoring_rig
from tests.kit.archives import require_found
from tests.kit.lab_access import Inside
from tests.kit.refusals import refused
from tests.kit.rigs import SEED, quick, write_quick
from tests.kit.servers import skip_without_server
from tests.kit.waiting import await_end, wait_until

LIMIT_S = 180
HONEST = [
    pytest.param(name.value, engine, id=f"{engine} {name.value}")
    for name, kinds in METHODS.items()
    for engine, kind in kinds.items()
    if kind.rpo_s is None and name.value not in ("files", "drives-apart")
]

# A client that restores a copy of its lab's server, says where, and waits.
_CLIENT = """
import sys
from pathlib import Path
from dbcheck.lab.lab import Lab
from dbcheck.lab.copies import LabCopies
from dbcheck.lab.spec import LabSpec
from sqlalchemy.engine import make_url

cut, folder, method = sys.argv[1:]
spec = LabSpec("postgresql", cut=cut, log_drive=method == "drives")
with Lab.start(spec, Path(folder)) as lab:
    copies = LabCopies(lab, method)
    copies.take("one", lambda: None)
    copies.restore("one")
    print(lab.name, make_url(copies.restored_url).port, flush=True)
    sys.stdin.read()
"""


def skip_without_programs(method: str, engine: str) -> None:
    """Skip the test if the server or a program of the method is not here."""
    skip_without_server(engine)
    kinds = {name.value: kinds for name, kinds in METHODS.items()}[method]
    for name in kinds[engine].needs:
        if find_program(SERVERS[engine], name) is None:
            pytest.skip(f"there is no {name}")


def dbcheck(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run `dbcheck lab run` with a quick workload; its lab and runs are in *folder*.

    Require that nothing of the lab is left there.
    """
    given = ["--workload", str(write_quick(folder)), "--runs", str(folder / "runs")]
    done = subprocess.run(
        [sys.executable, "-m", "dbcheck", "lab", "run", *words, *given],
        env={**make_environment(), "COLUMNS": "200", "TMPDIR": str(folder)},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )
    assert list(folder.glob("dbcheck-lab-*")) == []
    return done


def run(folder: Path, method: str, engine: str, *words: str) -> list[dict[str, Any]]:
    """Return the results of a command that did not fail."""
    skip_without_programs(method, engine)
    done = dbcheck(folder, "--engine", engine, "--restore", method, "--json", *words)
    assert done.returncode in (0, 1, 3), done.stderr
    results: list[dict[str, Any]] = json.loads(done.stdout)["cycles"]
    return results


def status_of_volumes(result: dict[str, Any]) -> str:
    """Return the status of the evidence that the volumes are of one moment."""
    (status,) = (
        item["status"]
        for item in result["evidence"]
        if item["item"] == "volumes of one instant"
    )
    return str(status)


def list_images(lab: str) -> set[str]:
    """Return the images of that lab's drives that are attached to loop devices."""
    found = set()
    for file in Path("/sys/block").glob("loop*/loop/backing_file"):
        with contextlib.suppress(OSError):  # it was freed just now
            found.add(file.read_text().strip())
    return {path for path in found if f"/{lab}/" in path and ".image" in path}


def is_listening(port: int) -> bool:
    """Return whether a server is at that port of this machine."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.wide_with(
    *(each.id for each in HONEST if each.id != "postgresql base-backup")
)
@pytest.mark.parametrize(("method", "engine"), HONEST)
def test_a_restored_copy_has_every_commit(
    tmp_path: Path, method: str, engine: str
) -> None:
    (result,) = run(tmp_path, method, engine)
    assert result["verdict"] == "PASS", result["reasons"]
    assert result["copy"]["due"] == result["copy"]["due_kept"] > 0
    assert result["copy"]["after"] > 0 == result["copy"]["after_kept"]


@pytest.mark.wide_with("mysql", "myrocks", "ext4")
@pytest.mark.parametrize(
    ("engine", "filesystem"),
    [
        pytest.param("postgresql", "xfs", id="postgresql"),
        pytest.param("mariadb", "xfs", id="mariadb"),
        pytest.param("mysql", "xfs", id="mysql"),
        pytest.param("myrocks", "xfs", id="myrocks"),
        pytest.param("postgresql", "ext4", id="ext4"),
    ],
)
def test_two_drives_that_are_copied_at_one_moment_have_every_commit(
    tmp_path: Path, engine: str, filesystem: str
) -> None:
    words = ("--log-drive", "--fs", filesystem)
    (result,) = run(tmp_path, "drives", engine, *words)
    assert result["verdict"] == "PASS", result["reasons"]
    assert result["copy"]["due"] == result["copy"]["due_kept"] > 0
    assert status_of_volumes(result) == "present"


@pytest.mark.wide_with("mariadb")
@pytest.mark.parametrize("engine", ["postgresql", "mariadb"])
def test_drives_that_are_copied_one_after_the_other_never_pass(
    tmp_path: Path, engine: str
) -> None:
    """All rows may be there: the server recovers from such drives by luck."""
    (result,) = run(tmp_path, "drives-apart", engine, "--log-drive")
    assert result["verdict"] in ("FAIL", "INCONCLUSIVE"), result["reasons"]
    assert status_of_volumes(result) == "contradicted"
    assert "restored-log is older than" in "".join(result["reasons"])


@pytest.mark.wide
def test_a_server_that_does_not_start_on_such_drives_is_explained(
    tmp_path: Path,
) -> None:
    """A checkpoint came between, which the older log does not have."""
    skip_without_programs("drives-apart", "postgresql")
    sizes = ("wal_segment_size=1MB", "max_wal_size=2MB", "min_wal_size=2MB")
    settings = [word for size in sizes for word in ("--setting", size)]
    done = dbcheck(
        tmp_path,
        *("--engine", "postgresql", "--restore", "drives-apart", "--log-drive"),
        *settings,
    )
    assert done.returncode == 4, done.stderr
    assert "could not locate a valid checkpoint record" in done.stderr
    assert "the volumes are not of one moment" in done.stderr


@pytest.mark.wide
def test_copies_follow_one_another_in_one_lab(tmp_path: Path) -> None:
    results = run(tmp_path, "base-backup", "postgresql", "--cycles", "3")
    assert [result["verdict"] for result in results] == ["PASS"] * 3


@pytest.mark.wide
@pytest.mark.parametrize(
    ("method", "rpo_s"), [("archive", 5), ("receiver", 0), ("pgbackrest", 5)]
)
def test_what_a_lost_server_had_shipped_keeps_the_objective(
    tmp_path: Path, method: str, rpo_s: int
) -> None:
    results = run(tmp_path, method, "postgresql", "--cycles", "2")
    for result in results:
        assert result["verdict"] == "PASS", result["reasons"]
        assert result["copy"]["rpo_s"] == rpo_s
        assert result["copy"]["due"] == result["copy"]["due_kept"] > 0
    assert len(results) == 2


@dataclass
class _Damaged:
    """Restores a repository of pgBackRest in which a segment was damaged before.

    damage: does that to the file of one segment that came after the backup.
    """

    programs: CopyPrograms
    folder: Path
    damage: Callable[[Path], None]

    def take(self, *_: object) -> None:
        """Take no copy."""

    def restore(self, run_id: str, point: Point | None = None) -> None:
        """Damage the second segment after the backup, and restore the rest.

        One is completed each second, so that what is due comes after it.
        """
        stored = self.folder / "copies"
        (backup,) = stored.rglob("repository/archive/main/*/*/0*.backup")
        segments = sorted(stored.rglob("repository/archive/main/*/*/0*-*"))
        later = [one for one in segments if one.name[:24] > backup.name[:24]]
        self.damage(later[1])
        self.programs.restore(run_id, point)

    def remove(self, run_id: str) -> None:
        """Remove what was restored."""
        self.programs.remove(run_id)


def _overwrite(segment: Path) -> None:
    content = bytearray(segment.read_bytes())
    content[len(content) // 2 :] = bytes(len(content) - len(content) // 2)
    segment.write_bytes(content)


@pytest.mark.wide
@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(Path.unlink, id="a segment is missing"),
        pytest.param(lambda path: path.chmod(0), id="a segment cannot be read"),
        pytest.param(_overwrite, id="a segment is damaged"),
    ],
)
def test_a_repository_that_lacks_a_segment_is_found(
    tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    skip_without_programs("pgbackrest", "postgresql")
    chosen = METHODS[MethodName.PGBACKREST]["postgresql"]
    spec = LabSpec("postgresql", cut="process", settings=dict(chosen.settings))
    workload = replace(quick(), cut_after_s=(9.0, 9.5))
    with Lab.start(spec, tmp_path / "lab") as lab:
        view = PlainProgress(make_progress_console())
        rig = make_restoring_rig(lab, "pgbackrest", view, tmp_path / "runs", LIMITS)
        with contextlib.closing(rig.witness):
            assert rig.copying is not None
            damaged = _Damaged(rig.copying.programs, lab.folder, damage)
            rig = replace(rig, copying=replace(rig.copying, programs=damaged))
            outcome = run_cycle(rig, workload, SEED)
    require_found(outcome)


@pytest.mark.wide
@pytest.mark.parametrize("cut", ["drive", "process"])
def test_files_of_several_moments_do_not_pass(tmp_path: Path, cut: str) -> None:
    """The WAL that was copied begins at a checkpoint after the tables were copied."""
    (result,) = run(tmp_path, "files", "postgresql", "--cut", cut)
    assert result["verdict"] == "FAIL", result["reasons"]


def test_a_method_of_another_server_is_refused(tmp_path: Path) -> None:
    done = dbcheck(tmp_path, "--engine", "mariadb", "--restore", "clone")
    assert done.returncode == 2
    assert "[restore-method-not-for-engine]" in done.stderr
    assert "mariadb-backup" in done.stderr
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("more", [["--until", "0.1"], ["--nodes", "2"], ["--control"]])
def test_what_needs_a_cut_is_refused(tmp_path: Path, more: list[str]) -> None:
    done = dbcheck(
        tmp_path, "--engine", "postgresql", "--restore", "base-backup", *more
    )
    assert done.returncode == 2
    assert f"--restore cannot be used with {more[0]}" in done.stderr


@pytest.mark.wide
@pytest.mark.root
@pytest.mark.parametrize(
    ("cut", "method"),
    [("drive", "base-backup"), ("process", "base-backup"), ("drive", "drives")],
)
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_a_client_takes_the_restored_server_along(
    tmp_path: Path, number: signal.Signals, cut: str, method: str
) -> None:
    skip_without_programs("base-backup", "postgresql")
    words = (_CLIENT, cut, str(tmp_path / "lab"), method)
    client = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", *words],
        env=make_environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    assert client.stdin is not None
    assert client.stdout is not None
    with client.stdin, client.stdout:
        name, port = client.stdout.readline().decode().split()
        assert is_listening(int(port))
        inside = Inside.of(Lab.find(name)) if cut == "drive" else None
        images = 2 if method == "drives" else 0
        assert len(list_images(name)) == images
        daemon = state.find(name).daemon()
        client.send_signal(number)
        await_end(client)
    assert isinstance(daemon, Process)
    wait_until(lambda: not daemon.alive(), "the daemon is gone")
    wait_until(lambda: not is_listening(int(port)), "the restored server is gone")
    if inside is not None:
        wait_until(lambda: not inside.processes(), "all processes gone")
        wait_until(lambda: not inside.attached(), "loop device free")
    wait_until(lambda: not list_images(name), "the copies are free")
    wait_until(lambda: not (tmp_path / "lab").exists(), "folder removed")


@pytest.mark.wide
def test_a_copy_that_is_given_up_is_removed(tmp_path: Path) -> None:
    """Its program ends, and it can be neither restored nor awaited any more."""
    skip_without_programs("base-backup", "postgresql")
    with Lab.start(LabSpec("postgresql", cut="process"), tmp_path / "lab") as lab:
        copies = LabCopies(lab, "base-backup")

        def give_up() -> None:
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            copies.take("one", give_up)
        copies.remove("one")
        copies.remove("one")
        with refused(ErrorId.COPY_NOT_RESTORED, EngineError, naming="no copy one"):
            copies.restore("one")
        copies.take("two", lambda: None)
        copies.restore("two")
        copies.restore("two")


@pytest.mark.wide
def test_a_copy_that_cannot_be_taken_is_an_error_with_the_programs_words(
    tmp_path: Path,
) -> None:
    done = dbcheck(
        tmp_path,
        *("--engine", "postgresql", "--restore", "base-backup"),
        *("--setting", "max_wal_senders=0", "--setting", "wal_level=minimal"),
    )
    assert done.returncode == 4, done.stderr
    assert "[copy-not-taken]" in done.stderr
    assert "Traceback" not in done.stderr
    assert "pg_basebackup" in done.stderr
