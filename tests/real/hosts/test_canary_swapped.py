"""Canaries while a process of the account that owns the folder works against them."""

from __future__ import annotations

import ast
import contextlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from dbcheck.agent.host.canary import RUN
from dbcheck.agent.host.folder import BESIDE, INSIDE, MARKER
from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import HostError
from dbcheck.cycle.host import end_host_canaries, start_host_inspection
from dbcheck.cycle.own_data import read_own_facts
from dbcheck.hosts.canary import Pace
from dbcheck.hosts.host import PARTS, TargetHost, open_host
from dbcheck.lab.servers.base import DatabaseServer
from dbcheck.model.depth import Depth, find_depth
from dbcheck.ports.engine import Engine
from dbcheck.rows.table import LEDGER
from tests.kit.canaries import EXT4, QUICK, judge, wrote
from tests.kit.files import ACCOUNT, AS_ROOT, contents
from tests.kit.logins import BECOME, become, host_as
from tests.kit.refusals import refused
from tests.kit.waiting import wait_until

ROUNDS_S = 2.0
ROUNDS_MIN = 5
AGENT = (
    "dbcheck.base.system",
    "dbcheck.agent.wire",
    *PARTS,
    "dbcheck.agent.host.serve",
)
TINY = Pace(direct_per_s=2000, ring_blocks=8, rings=2, file_bytes=1 << 12)

# From then on this is another account's, which may not see where Python lies.
# It ends with its parent, as its standard input is a pipe.
LOOP = """
folder, victim = sys.argv[1:]
names = ["run.json", "direct-1", "direct-2", "buffered-000001", "dbcheck-canary"]
def swap_folder():
    os.rename(folder, folder + "-aside")
    os.symlink(victim, folder)
    os.unlink(folder)
    os.rename(folder + "-aside", folder)
def swap_files():
    os.makedirs(folder, exist_ok=True)
    for name in names:
        path = folder + "/" + name
        for put in (os.symlink, os.link, lambda _, path: os.mkfifo(path)):
            with contextlib.suppress(OSError):
                put(victim + "/" + name, path)
            with contextlib.suppress(OSError):
                os.unlink(path)
        with contextlib.suppress(OSError):
            shutil.copy(victim + "/../own/" + name, path)
print(flush=True)
count = 0
while not select.select([0], [], [], 0)[0]:
    with contextlib.suppress(OSError):
        (swap_files if count % 3 == 2 else swap_folder)()
    count += 1
"""


@pytest.fixture
def base() -> Iterator[Path]:
    """A folder that every account can search, and only root can list."""
    made = Path(tempfile.mkdtemp(prefix="dbcheck-"))
    made.chmod(0o711)
    yield made
    shutil.rmtree(made)


@pytest.fixture
def data(base: Path) -> Path:
    """A data directory in a folder that belongs to the server's account, too."""
    data = base / "parent" / "data"
    data.mkdir(parents=True)
    for path in (data, data.parent):
        os.chown(path, ACCOUNT, ACCOUNT)
    return data


@pytest.fixture
def victim(base: Path) -> Path:
    """What is root's; the account may see it, and copy what it will."""
    victim, own = base / "victim", base / "own"
    for folder in (victim, own):
        folder.mkdir()
        for name in (RUN, "direct-1", "direct-2", "buffered-000001", MARKER):
            (folder / name).write_text(f"thesis: {name}")
    return victim


@contextlib.contextmanager
def against(folder: Path, victim: Path) -> Iterator[None]:
    """Exchange the folder and its files, as the account, for as long as this lasts."""
    attacker = subprocess.Popen(
        [
            sys.executable,
            "-c",
            become(ACCOUNT, ACCOUNT) + LOOP,
            str(folder),
            str(victim),
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd="/",
    )
    assert attacker.stdin is not None
    assert attacker.stdout is not None
    try:
        assert attacker.stdout.readline()
        yield
        assert attacker.poll() is None
    finally:
        attacker.stdin.close()
        attacker.stdout.close()
        attacker.wait(60)


def once(host: TargetHost, data: Path, said: set[str]) -> None:
    """Start canaries, read and remove them; collect the words of what was refused."""
    folder, nonce = str(data.parent / BESIDE), ""
    try:
        canaries = host.start_canaries(str(data), pace=TINY)
        nonce = canaries.nonce
        canaries.stop()
    except HostError as error:
        said.add(str(error))
    for question in (
        lambda: host.read_canaries(folder, nonce),
        lambda: host.remove_canaries(folder),
        lambda: host.clear_canaries(str(data)),
    ):
        try:
            question()
        except HostError as error:
            said.add(str(error))


@AS_ROOT
def test_root_touches_nothing_else_whatever_the_account_does(
    data: Path, victim: Path
) -> None:
    before, said = contents(victim), set[str]()
    with contextlib.closing(open_host("local:")) as host:
        with against(data.parent / BESIDE, victim):
            ends_s = time.monotonic() + ROUNDS_S
            rounds = 0
            while time.monotonic() < ends_s or not said or rounds < ROUNDS_MIN:
                once(host, data, said)
                rounds += 1
                assert contents(victim) == before
        for path in data.parent.glob(f"{BESIDE}*"):
            path.unlink() if path.is_symlink() else shutil.rmtree(path)
        once(host, data, said := set())
    assert said == set()
    assert list(data.parent.iterdir()) == [data]
    assert contents(victim) == before


def imported(module: str) -> set[str]:
    """Return the modules of the standard library that *module* imports at once."""
    path = Path(__file__).parents[3] / (module.replace(".", "/") + ".py")
    found: set[str] = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Import):
            found |= {each.name for each in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            found.add(node.module)
    return {name for name in found if not name.startswith("dbcheck")}


def test_the_agent_imports_nothing_that_the_account_may_not_have() -> None:
    """An account sees no module of a Python that lies in another one's home."""
    needed = set().union(*map(imported, AGENT))
    there = set(re.split(r"[\s,]+", BECOME.partition("os.set")[0])) - {"import", ""}
    assert needed <= there


@AS_ROOT
def test_the_account_measures_its_own_server(data: Path) -> None:
    """Without root: its data directory and the folder that it is in suffice."""
    with contextlib.closing(host_as(ACCOUNT, ACCOUNT)) as host:
        canaries = host.start_canaries(str(data), pace=TINY)
        wait_until(lambda: wrote(canaries, 10), "they write")
        folder = Path(canaries.folder)
        assert folder.stat().st_uid == ACCOUNT
        canaries.stop()
        assert judge(host, canaries).depth is Depth.PROCESS
        with contextlib.closing(open_host("local:")) as root:  # reads them as well
            assert judge(root, canaries).depth is Depth.PROCESS
        assert host.clear_canaries(str(data)).removed == (canaries.folder,)
        assert host.clear_canaries(str(data)).removed == ()
    assert list(data.parent.iterdir()) == [data]


@pytest.mark.wide_with("postgresql", "mysql")
@AS_ROOT
def test_the_servers_own_account_is_enough(
    server: DatabaseServer, engine: Engine
) -> None:
    """It knows the data, reads the log, and writes inside of the data directory."""
    facts, owner = engine.facts(), server.data.stat()
    assert owner.st_uid
    with contextlib.closing(host_as(owner.st_uid, owner.st_gid)) as host:
        before, canaries = start_host_inspection(
            host,
            facts.server_log,
            read_own_facts(host, facts, engine.places((LEDGER,)), engine.mark_data),
        )
        end_host_canaries(host, canaries, remove=True)
    assert before.canary_folder == f"{server.data}/{INSIDE}"
    assert before.log_marks
    assert not before.facts.unseen
    assert not Path(before.canary_folder).exists()


def test_canaries_whose_folder_was_moved_tell_no_depth(tmp_path: Path) -> None:
    """Else their owner could have a cut look deeper than it was, or shallower."""
    data = tmp_path / "parent" / "data"
    data.mkdir(parents=True)
    with contextlib.closing(open_host("local:")) as host:
        canaries = host.start_canaries(str(data), pace=QUICK)
        wait_until(lambda: wrote(canaries, 10), "they write")
        folder = Path(canaries.folder)
        aside = folder.rename(data.parent / "aside")
        written = canaries.completed().buffered.last
        wait_until(lambda: wrote(canaries, written + 10), "they go on in it")
        canaries.stop()
        gone = host.read_canaries(canaries.folder, canaries.nonce)
        assert find_depth(canaries.completed(), gone, EXT4).depth is None
        assert "does not hold the file that was made durable" in gone.missing
        folder.symlink_to(aside)
        with refused(
            ErrorId.FOLDER_HOLDS_OTHER_FILES,
            HostError,
            naming="is a link, or not a folder",
        ):
            host.read_canaries(canaries.folder, canaries.nonce)
        with refused(
            ErrorId.FOLDER_HOLDS_OTHER_FILES,
            HostError,
            naming="is a link, or not a folder",
        ):
            host.remove_canaries(canaries.folder)
        assert (aside / RUN).exists()


ON_OVERLAY = """
import subprocess, sys
from dbcheck.hosts.canary import Pace
from dbcheck.hosts.host import open_host
from tests.kit.waiting import wait_until
lower, upper, work, merged = sys.argv[1:]
layers = f"lowerdir={lower},upperdir={upper},workdir={work}"
subprocess.run(["mount", "-t", "overlay", "overlay", "-o", layers, merged], check=True)
host = open_host("local:")
pace = Pace(direct_per_s=500, ring_blocks=8, rings=1, file_bytes=1 << 12)
canaries = host.start_canaries(merged + "/data", pace=pace)
wait_until(lambda: canaries.completed().buffered.last > 10, "they write")
canaries.stop()
assert canaries.failure in ("", "Invalid argument"), canaries.failure  # no O_DIRECT
assert host.read_canaries(canaries.folder, canaries.nonce).buffered
host.remove_canaries(canaries.folder)
host.close()
"""


@AS_ROOT
def test_a_filesystem_whose_files_and_folders_have_two_devices(
    tmp_path: Path,
) -> None:
    """As overlayfs over another filesystem says (kernel doc, filesystems/overlayfs)."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as lower:
        (Path(lower) / "data").mkdir()
        folders = [tmp_path / name for name in ("upper", "work", "merged")]
        for folder in folders:
            folder.mkdir()
        done = subprocess.run(
            ["unshare", "--mount", sys.executable, "-c", ON_OVERLAY, lower, *folders],
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])},
            capture_output=True,
            text=True,
        )
    assert done.returncode == 0, done.stderr
    assert list((tmp_path / "upper").rglob("direct-*")) == []
