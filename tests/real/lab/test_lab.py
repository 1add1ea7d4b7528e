"""A whole lab: real servers on real filesystems on a drive that loses its cache."""

from __future__ import annotations

import contextlib
import mmap
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import paramiko
import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import LabError, PowerError
from dbcheck.lab import lab as labs
from dbcheck.lab import state
from dbcheck.lab.lab import Lab
from dbcheck.lab.mounts import umount
from dbcheck.lab.namespace import BASE
from dbcheck.lab.spec import DATA_DRIVE, DriveSpec, LabSpec
from dbcheck.lab.storage.filesystem import attach, mkfs, mount
from dbcheck.lab.switch import LabSwitch
from dbcheck.model.cut import PowerState
from tests.kit.drive_mounts import own_mounts as own_mounts
from tests.kit.lab_access import Inside, Table, connect, server_pid
from tests.kit.refusals import refused
from tests.kit.servers import skip_without_server
from tests.kit.waiting import wait_until

Start = Callable[..., Lab]
ENGINES = pytest.mark.parametrize("engine", ["postgresql", "mariadb"])
ALL = pytest.mark.parametrize("engine", ["postgresql", "mariadb", "mysql"])
FILESYSTEMS = pytest.mark.parametrize("filesystem", ["xfs", "ext4"])
ON_EACH = pytest.mark.parametrize(
    ("engine", "filesystem"), [("postgresql", "xfs"), ("mariadb", "ext4")]
)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start labs that are closed after the test."""
    started: list[Lab] = []

    def _start(engine: str, **values: object) -> Lab:
        values.setdefault("drive", DriveSpec(destage_age_s=0))
        spec = LabSpec(engine, **values)  # type: ignore[arg-type]
        skip_without_server(engine)
        started.append(Lab.start(spec, tmp_path / f"lab{len(started)}"))
        return started[-1]

    yield _start
    for lab in started:
        lab.close()


def _folder(lab: Lab) -> Path:
    folder = state.find(lab.name).folder()
    assert folder is not None
    return folder


def _cycle(lab: Lab, table: Table) -> set[int]:
    """Commit, cut, restore; return what was lost."""
    switch = lab.switch()
    table.insert(50)
    cut = switch.cut()
    assert switch.state() is PowerState.OFF
    assert cut.asked_us is not None
    assert cut.exact_us is not None
    assert cut.exact_us >= cut.asked_us
    switch.restore()
    assert switch.state() is PowerState.ON
    assert switch.failure() is None
    return table.lost()


@pytest.mark.root
@ON_EACH
def test_an_honest_drive_loses_no_commit(
    start: Start, engine: str, filesystem: str
) -> None:
    lab = start(engine, filesystem=filesystem)
    table = Table(lab)
    for _ in range(2):
        assert not _cycle(lab, table)


@pytest.mark.wide_with("mariadb")
@pytest.mark.root
@pytest.mark.parametrize(
    "engine",
    ["postgresql", "mariadb", pytest.param("mysql", marks=pytest.mark.soak)],
)
def test_whatever_survives_an_honest_drive_loses_no_commit(
    start: Start, engine: str
) -> None:
    lab = start(engine)
    table = Table(lab)
    for kept_writes in ("none", "all", "prefix", "random", "torn"):
        lab.set_drive(kept_writes=kept_writes, seed=7)
        assert not _cycle(lab, table), kept_writes


@pytest.mark.root
@ON_EACH
def test_a_lying_drive_loses_commits(
    start: Start, engine: str, filesystem: str
) -> None:
    drive = DriveSpec(personality="lying", destage_age_s=0)
    lab = start(engine, filesystem=filesystem, drive=drive)
    table = Table(lab)
    table.insert(10)
    cut = lab.switch().cut()
    assert cut.report["flushes"] > 0
    assert cut.report["flushes_honoured"] == 0
    assert cut.report["lost_sectors"] > 0
    lab.switch().restore()
    assert table.lost() == set(table.acked)


@pytest.mark.wide_with("mariadb")
@pytest.mark.root
@ENGINES
def test_a_drive_without_cache_needs_no_flush(start: Start, engine: str) -> None:
    drive = DriveSpec(personality="write-through")
    lab = start(engine, drive=drive)
    table = Table(lab)
    table.insert(20)
    cut = lab.switch().cut()
    assert cut.report["flushes_expected"] is False
    assert cut.report["flushes"] == cut.report["lost_sectors"] == 0
    lab.switch().restore()
    assert not table.lost()


@pytest.mark.root
def test_a_filesystem_without_barriers_loses_commits(start: Start) -> None:
    lab = start("mariadb", filesystem="ext4", mount_options="barrier=0")
    table = Table(lab)
    table.insert(20)
    cut = lab.switch().cut()
    assert cut.report["flushes_expected"] is False
    assert cut.report["flushes"] == 0
    lab.switch().restore()
    assert table.lost()


@pytest.mark.root
def test_a_cut_of_a_lab_that_is_wired_wrongly_is_refused(start: Start) -> None:
    lab = start("postgresql")
    table = Table(lab)
    queue = Path("/sys/block", Inside.of(lab).loop[0], "queue/write_cache")
    queue.write_text("write through")
    table.insert(20)
    with refused(ErrorId.LAB_WIRED_WRONGLY, PowerError, naming="write through"):
        lab.switch().cut()
    assert lab.switch().state() is PowerState.OFF


@pytest.mark.root
def test_an_idle_lab_can_be_cut(start: Start) -> None:
    for engine in ("postgresql", "mariadb"):
        lab = start(engine)
        for _ in range(2):
            lab.switch().cut()
            lab.switch().restore()
        assert lab.switch().failure() is None


@pytest.mark.root
@FILESYSTEMS
def test_a_filesystem_that_cannot_be_mounted_is_a_result(
    start: Start, filesystem: str
) -> None:
    lab = start("postgresql", filesystem=filesystem)
    inside = Inside.of(lab)
    # Superblocks of both filesystems lie in here.  Past the page cache, as the
    # filesystem could write its own copy over ours.
    device = os.open(inside.device, os.O_WRONLY | os.O_DIRECT | os.O_DSYNC)
    with mmap.mmap(-1, 1 << 20) as zeros:
        os.write(device, zeros)
    os.close(device)
    switch = lab.switch()
    switch.cut()
    switch.restore()
    assert switch.state() is PowerState.ON
    failure = switch.failure()
    assert failure is not None
    assert "mount" in failure
    switch.cut()
    switch.restore()
    assert switch.failure() is not None


HOLDS = "cd {folder} && echo here && exec sleep 600"


@contextlib.contextmanager
def held(lab: Lab, *namespaces: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run a process in these namespaces of a lab, in its storage."""
    shell = HOLDS.format(folder=BASE / lab.name / DATA_DRIVE)
    words = ["nsenter", "-t", str(server_pid(lab)), *namespaces, "sh", "-c", shell]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"here\n"
            yield process
        finally:
            process.kill()


@pytest.mark.root
def test_a_process_on_the_labs_host_ends_with_its_power(start: Start) -> None:
    """A power cut asks nobody, and what works on that host ends with it."""
    lab = start("mariadb")
    table, switch = Table(lab), lab.switch()
    with held(lab, "--mount", "--pid") as process:
        assert not _cycle(lab, table)
        assert process.wait(30)
    assert switch.failure() is None


@pytest.mark.root
def test_a_process_outside_that_keeps_the_storage_is_named_as_it_is_known_there(
    start: Start,
) -> None:
    lab = start("mariadb")
    table, switch = Table(lab), lab.switch()
    with held(lab, "--mount") as process:
        with refused(ErrorId.FILESYSTEM_IN_USE, PowerError, naming="busy") as caught:
            switch.cut()
        assert caught.value.id is ErrorId.FILESYSTEM_IN_USE
        assert f"{process.pid} (sleep)" in caught.value.hint
        process.kill()
    switch.restore()
    assert not _cycle(lab, table)


@pytest.mark.root
def test_a_lab_keeps_no_device_of_others_busy(
    start: Start, tmp_path: Path, own_mounts: None
) -> None:
    """Where / is not shared, an unmount outside does not come into the lab."""
    folder, image = tmp_path / "others", tmp_path / "image"
    folder.mkdir()
    image.touch()
    os.truncate(image, 8 << 20)
    with image.open("r+b") as file, attach(file.fileno()) as device:
        mkfs(device.path, "ext4")
        mount(device.path, folder, "ext4")
        lab = start("postgresql", cut="process")
        umount(folder)
        device.detach()
        assert lab.switch().failure() is None


@pytest.mark.wide_with("mysql")
@ALL
def test_a_server_that_does_not_recover_is_a_result(start: Start, engine: str) -> None:
    lab = start(engine, cut="process")
    switch = lab.switch()
    switch.cut()
    vital = "global/pg_control" if engine == "postgresql" else "ibdata1"
    (_folder(lab) / "files/data" / vital).write_bytes(b"")
    switch.restore()
    assert switch.state() is PowerState.ON
    assert "did not start" in str(switch.failure())
    assert lab.server_log()


@pytest.mark.wide_with("mariadb", "mysql")
@ALL
def test_a_server_that_somebody_kills_is_not_to_blame(
    start: Start, engine: str
) -> None:
    """As the kernel does where memory is short; a cut and a restore bring it back."""
    lab = start(engine, cut="process")
    switch = lab.switch()
    os.kill(server_pid(lab), signal.SIGKILL)
    wait_until(lambda: _broken(switch), "it is noticed")
    with refused(
        ErrorId.LAB_BROKEN, PowerError, naming="ended without a cut: exit status -9"
    ):
        switch.failure()
    switch.cut()
    switch.restore()
    assert switch.failure() is None
    assert connect(lab.target_url, lab.password).close() is None


def _broken(switch: LabSwitch) -> bool:
    try:
        assert switch.failure() is None
    except PowerError:
        return True
    return False


@pytest.mark.wide_with("mariadb")
@ENGINES
def test_a_killed_server_keeps_its_commits(start: Start, engine: str) -> None:
    lab = start(engine, cut="process")
    table = Table(lab)
    for _ in range(2):
        assert not _cycle(lab, table)
    assert lab.counters() == {}
    with refused(ErrorId.DRIVE_CUT_NEEDED, LabError, naming="no drive"):
        lab.set_drive(flush_ms=3)


@pytest.mark.root
def test_commits_that_need_no_flush_are_lost(start: Start) -> None:
    # The WAL writer, which would make them durable by itself, sleeps that long at most.
    settings = {"synchronous_commit": "off", "wal_writer_delay": "10s"}
    lab = start("postgresql", settings=settings)
    table = Table(lab)
    table.insert(50)
    cut = lab.switch().cut()
    assert cut.report["flushes_expected"] is False
    lab.switch().restore()
    assert table.lost()


@pytest.mark.root
def test_settings_change_between_cycles(start: Start) -> None:
    lab = start("postgresql")
    table = Table(lab)
    with refused(ErrorId.POWER_STILL_ON, LabError):
        lab.configure({"fsync": "off"})
    lab.switch().cut()
    with refused(
        ErrorId.LAB_OF_OTHER_VERSION, LabError, naming="Expected `str`, got `int`"
    ):
        lab.configure({"fsync": 0})  # type: ignore[dict-item]
    lab.configure({"fsync": "off"})
    lab.switch().restore()
    table.insert(50)
    cut = lab.switch().cut()
    assert cut.report["flushes_expected"] is False
    lab.configure({})
    lab.switch().restore()
    assert lab.switch().failure() is None
    assert table.lost()


@pytest.mark.wide_with("mariadb")
@ENGINES
def test_a_frozen_server_falls_silent(start: Start, engine: str) -> None:
    lab = start(engine, cut="process")
    connection = connect(lab.target_url, lab.password)
    sock = connection.fileno() if engine == "postgresql" else -1
    lab.freeze_server()
    assert _silent(lab)
    lab.thaw_server()
    assert not _silent(lab, 60)
    assert sock == -1 or connection.closed == 0
    connection.close()
    lab.freeze_server()
    lab.switch().cut()


def _silent(lab: Lab, timeout_s: float = 0.7) -> bool:
    """Say whether a new connection gets no answer in so long."""
    code = (
        "import sys; from tests.kit.lab_access import connect; print(flush=True);"
        "connect(sys.argv[1], sys.stdin.read()).close()"
    )
    words = [sys.executable, "-c", code, lab.target_url]
    pipe = subprocess.PIPE
    with subprocess.Popen(words, stdin=pipe, stdout=pipe) as client:
        assert client.stdout is not None
        client.stdout.readline()  # only now: starting it may take long
        try:
            client.communicate(lab.password.encode(), timeout=timeout_s)
        except subprocess.TimeoutExpired:
            client.kill()
            return True
    assert client.returncode == 0
    return False


@ENGINES
def test_the_witness_outlives_the_power(start: Start, engine: str) -> None:
    lab = start(engine, cut="process")
    url = urlsplit(lab.witness_url)
    with paramiko.SSHClient() as client:
        client.load_host_keys(str(lab.known_hosts))
        client.connect(
            url.hostname or "",
            port=url.port or 0,
            username=url.username,
            key_filename=str(lab.identity_file),
            allow_agent=False,
            look_for_keys=False,
        )
        command = f"cd {url.path} && cat > acks && cat acks"
        stdin, stdout, _ = client.exec_command(command)
        lab.switch().cut()
        stdin.write("an ack")
        stdin.channel.shutdown_write()
        assert stdout.read() == b"an ack"
    assert not Path(url.path).is_relative_to(_folder(lab) / "files")


def test_power_that_is_off_cannot_be_cut(start: Start) -> None:
    switch = start("postgresql", cut="process").switch()
    switch.cut()
    with refused(ErrorId.POWER_OFF_ALREADY, PowerError, naming="off already"):
        switch.cut()
    switch.restore()
    switch.restore()
    assert switch.failure() is None


def test_a_switch_without_a_lab_is_a_power_error() -> None:
    with refused(
        ErrorId.LAB_DAEMON_GONE, PowerError, naming=("lab nobody:", "cannot reach")
    ):
        LabSwitch("nobody").state()


def test_a_kept_lab_is_found_by_its_name(tmp_path: Path) -> None:
    spec = LabSpec("postgresql", cut="process")
    name = f"test-{os.getpid()}"
    code = (
        "import sys; from pathlib import Path; from dbcheck.lab.lab import Lab;"
        "from dbcheck.lab.spec import LabSpec;"
        "Lab.start(LabSpec.from_json(sys.argv[1]), Path(sys.argv[2]),"
        " keep=True, name=sys.argv[3])"
    )
    words = [sys.executable, "-W", "error", "-c", code, spec.to_json()]
    subprocess.run([*words, str(tmp_path / "lab"), name], check=True, timeout=60)
    try:
        assert name in labs.list_persistent_labs()
        lab = Lab.find(name)
        assert lab.spec == spec
        table = Table(lab)
        assert not _cycle(lab, table)
        with refused(ErrorId.LAB_EXISTS, LabError):
            Lab.start(spec, tmp_path / "other", name=name)
        assert not (tmp_path / "other").exists()
    finally:
        assert labs.down(name)
    assert name not in labs.list_persistent_labs()
    assert not (tmp_path / "lab").exists()
    with refused(ErrorId.LAB_NOT_RUNNING, LabError, naming="no lab named"):
        Lab.find(name)
    with refused(ErrorId.LAB_NOT_RUNNING, LabError, naming="no lab named"):
        labs.down(name)


@pytest.mark.root
@pytest.mark.parametrize(
    ("values", "said"),
    [
        pytest.param({"mount_options": "nonsense"}, "nonsense", id="mount option"),
        pytest.param({"settings": {"no_such": "1"}}, "no_such", id="server setting"),
        pytest.param(
            {"drive": DriveSpec(size_bytes=1 << 20), "filesystem": "ext4"},
            "No space left",
            id="size",
        ),
    ],
)
def test_a_lab_that_cannot_be_built_leaves_nothing(
    tmp_path: Path, values: dict[str, object], said: str
) -> None:
    spec = LabSpec("postgresql", **values)  # type: ignore[arg-type]
    name = f"test-{os.getpid()}"
    with pytest.raises(LabError, match=said):
        Lab.start(spec, tmp_path / "lab", name=name)
    assert not (tmp_path / "lab").exists()
    assert not state.make_record(name).path.exists()


def test_a_folder_that_is_there_is_not_taken(tmp_path: Path) -> None:
    with refused(ErrorId.FILE_EXISTS, LabError, naming="already exists"):
        Lab.start(LabSpec("postgresql", cut="process"), tmp_path)
    assert tmp_path.exists()


def test_secrets_are_not_shown(start: Start) -> None:
    lab = start("postgresql", cut="process")
    assert lab.password not in lab.target_url
    assert lab.password not in repr(lab)
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            assert lab.password.encode() not in path.read_bytes()
        except OSError:
            continue
