"""What a lab of root's does with files that its server's account has exchanged."""

from __future__ import annotations

import ctypes
import grp
import os
import pwd
import random
import re
import secrets
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import LabError, PowerError, Unrecoverable
from dbcheck.lab import programs, server_account, state, syscalls
from dbcheck.lab.lab import Lab, list_missing
from dbcheck.lab.namespace import BASE
from dbcheck.lab.server_account import Account
from dbcheck.lab.spec import LabSpec
from dbcheck.lab.switch import LabRestarter
from tests.kit.drive_mounts import own_mounts as own_mounts
from tests.kit.files import let_write
from tests.kit.lab_access import Table, execute_on, server_pid
from tests.kit.refusals import refused
from tests.kit.servers import skip_without_server
from tests.kit.waiting import wait_until

pytestmark = pytest.mark.root
MS_RDONLY, MS_REMOUNT = 1, 32  # mount(2)

# As the account, it has each name in the server's folders lead to the victim.
# argv: the victim, how ("link" or "fifo"), the folders.
PLANT = """
import os, sys
victim, how, *folders = sys.argv[1:]
names = {"server.log", "initialise.log", "recovery.log", "password", "pid", "socket",
         "socket.lock", "accounts.sql", "tmp", "server", "postmaster.pid", "PG_VERSION",
         "source.pgpass", "patroni.json"}
if how == "fifo":  # at these the server waits itself, for ever
    names -= {"pid", "PG_VERSION"}
for folder in folders:
    try:
        found = set(os.listdir(folder))
    except OSError:
        found = set()
    for name in names if how == "fifo" or "data" in folder else names | found:
        path = os.path.join(folder, name)
        try:
            if os.path.lexists(path):
                os.rename(path, path + ".away")
            os.mkfifo(path) if how == "fifo" else os.symlink(victim, path)
            print(path)
        except OSError:
            pass
"""


@pytest.fixture
def victim(tmp_path: Path) -> Iterator[Path]:
    """A file of root's that nobody else may read."""
    file = Path("/var/tmp", f"dbcheck-test-{secrets.token_hex(4)}")
    file.write_text(f"{secrets.token_hex(16)}\n" * 3)
    file.chmod(0o600)
    yield file
    file.unlink()


def plant(lab: Lab, victim: Path, how: str) -> list[Path]:
    """Have a process of the account, in the lab, exchange all that it can."""
    pid = server_pid(lab)
    status = Path(f"/proc/{pid}/status").read_text()
    (uid,) = set(re.findall(r"^Uid:\s+(\d+)\s", status, re.MULTILINE))
    (gid,) = set(re.findall(r"^Gid:\s+(\d+)\s", status, re.MULTILINE))
    assert uid != "0"
    run = BASE / lab.name / "run"
    folders = [run, run / "server", run / "tmp", BASE / lab.name / "files/data"]
    done = subprocess.run(
        [
            *("nsenter", "--target", str(pid), "--mount", "--"),
            *("setpriv", "--reuid", uid, "--regid", gid, "--clear-groups", "--"),
            *(sys.executable, "-I", "-S", "-c", PLANT, str(victim), how),
            *map(str, folders),
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    planted = [Path(path) for path in done.stdout.split()]
    assert {path.parent for path in planted} <= {*folders[1:]}
    return planted


def said(do: Callable[[], object]) -> str:
    """Return what it returns or says in its error."""
    try:
        return str(do())
    except (LabError, PowerError) as error:
        return f"{error} {error.hint}"


@pytest.mark.parametrize(
    ("engine", "how"),
    [
        ("postgresql", "link"),
        ("postgresql", "fifo"),
        pytest.param("mariadb", "link", marks=pytest.mark.wide),
        ("mysql", "link"),
    ],
)
def test_root_follows_no_name_that_the_server_has_exchanged(
    engine: str, how: str, victim: Path, tmp_path: Path
) -> None:
    skip_without_server(engine)
    before, mode = victim.read_text(), victim.stat()
    with Lab.start(LabSpec(engine, cut="process"), tmp_path / "lab") as lab:
        Table(lab).insert(3)
        assert plant(lab, victim, how)
        heard = [said(lab.server_log), lab.password]
        if how == "link":  # PostgreSQL itself waits for ever at a pipe when it ends
            heard.append(said(LabRestarter(lab.name).restart))
        heard.append(said(lab.switch().cut))
        heard += [said(lab.switch().restore), said(lab.switch().failure)]
        heard += [said(lab.server_log), said(lambda: Lab.find(lab.name).password)]
    after = victim.stat()
    assert victim.read_text() == before
    assert (after.st_uid, after.st_mode) == (mode.st_uid, mode.st_mode)
    for text in heard:
        assert before[:32] not in text
        assert "Traceback" not in text
        assert "daemon failed" not in text
    assert os.path.lexists(victim)


def uid_of(lab: Lab) -> int:
    status = Path(f"/proc/{server_pid(lab)}/status").read_text()
    uids = {*map(int, re.findall(r"^[UG]id:(.*)", status, re.MULTILINE)[0].split())}
    assert re.findall(r"^Groups:(.*)", status, re.MULTILINE)[0].split() == []
    (uid,) = uids
    return uid


@pytest.mark.parametrize("cut", ["process", "drive"])
def test_each_lab_has_a_user_id_that_nothing_else_has(cut: str, tmp_path: Path) -> None:
    skip_without_server("postgresql")
    spec = LabSpec("postgresql", cut=cut)
    with Lab.start(spec, tmp_path / "a") as one, Lab.start(spec, tmp_path / "b") as two:
        found = {uid_of(one), uid_of(two)}
        assert len(found) == 2
        for uid in found:
            assert uid not in {each.pw_uid for each in pwd.getpwall()}
            assert uid not in {each.gr_gid for each in grp.getgrall()}
        assert state.find(one.name).account() == uid_of(one)


def test_a_user_id_is_free_once_what_a_killed_lab_left_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    skip_without_server("postgresql")
    spec = LabSpec("postgresql", cut="process")
    lab = Lab.start(spec, tmp_path / "a")
    number = uid_of(lab)
    daemon = state.find(lab.name).daemon()
    assert daemon is not None
    # The same number is drawn first, and another one only if that is taken.
    monkeypatch.setattr(
        server_account, "_intersect_mapped_ids", lambda _: range(number, number + 2)
    )
    monkeypatch.setattr(random.SystemRandom, "sample", lambda _, choice, n: choice)
    try:
        with Lab.start(spec, tmp_path / "b") as beside:
            assert uid_of(beside) == number + 1
        daemon.kill()
        wait_until(lambda: not state.make_record(lab.name).alive(), "it is dead")
        wait_until(
            lambda: number not in server_account._list_used_ids(), "its server, too"
        )
        with Lab.start(spec, tmp_path / "c") as after:
            assert uid_of(after) == number
    finally:
        lab.close()


# Numbers of add_key(2) and keyctl(2), one of its operations, the session keyring's id.
ADD_KEY, KEYCTL = {"aarch64": (217, 219)}.get(os.uname().machine, (248, 250))
JOIN, SESSION = 1, -3
KEYS = Path("/proc/keys")  # that the reader may see (proc(5))


@pytest.mark.skipif(
    os.uname().machine not in ("x86_64", "aarch64") or not KEYS.exists(),
    reason="no keys here, or by other system calls",
)
def test_a_server_has_no_key_of_who_started_its_lab(tmp_path: Path) -> None:
    """A process keeps those of its login, whatever its account becomes."""
    skip_without_server("postgresql")
    call = ctypes.CDLL(None).syscall
    if call(KEYCTL, JOIN, None) < 0:
        pytest.skip("processes may have no keyring of their own here")
    assert call(ADD_KEY, b"user", b"dbcheck-test", b"secret", 6, SESSION) >= 0
    as_other = ["setpriv", "--reuid=2000300001", "--clear-groups", "--", "cat"]
    assert b"dbcheck-test" in subprocess.check_output([*as_other, str(KEYS)])
    with Lab.start(LabSpec("postgresql", cut="process"), tmp_path / "lab") as lab:
        statements = "create table keys (line text)", f"copy keys from '{KEYS}'"
        seen = execute_on(lab, *statements, "select * from keys")
    assert "dbcheck-test" not in str(seen)


def test_no_program_on_a_drive_makes_its_server_root(tmp_path: Path) -> None:
    """Whoever made a recording had all of the drive in hand, as root here."""
    skip_without_server("postgresql")
    spec = LabSpec("postgresql", filesystem="ext4", mount_options="suid,dev")
    with Lab.start(spec, tmp_path / "lab") as lab:
        folder = BASE / lab.name / "files"
        make = f"cp $(command -v id) {folder} && chmod 4755 {folder}/id"
        enter = ("nsenter", "--target", str(server_pid(lab)), "--mount", "--")
        subprocess.run([*enter, "sh", "-c", make], check=True)
        statements = (
            "create table who (id int)",
            f"copy who from program '{folder}/id -u'",
        )
        assert execute_on(lab, *statements, "select * from who") == [(uid_of(lab),)]


# argv: the folder, the victim.  As the first account it fills the folder.
FILL = """
import os, sys
folder, victim = sys.argv[1:]
os.chdir(folder)
os.makedirs("deep/er")
open("deep/er/own", "w").close()
os.link("deep/er/own", "twice")
os.symlink(victim, "deep/link")
os.symlink(os.path.dirname(victim), "deep/er/away")
"""


def test_a_tree_is_given_to_another_account_and_nothing_beside_it(
    victim: Path, tmp_path: Path
) -> None:
    """As that of a recorded lab's server, which could put links there."""
    first, second = map(Account.of_number, (2_000_300_001, 2_000_300_002))
    tmp_path.chmod(0o711)
    folder = victim.with_name(f"{victim.name}.folder")
    server_account.make_folder(folder, first)
    try:
        command = ["setpriv", "--reuid", str(first.uid), "--regid", str(first.gid)]
        command += ["--clear-groups", "--", sys.executable, "-I", "-S", "-c", FILL]
        subprocess.run([*command, str(folder), str(victim)], check=True)
        os.link(victim, folder / "deep/root's")
        before = victim.stat()
        server_account.hand_over(folder, second)
        for path in (folder, *folder.rglob("*")):
            if path.name != "root's":
                assert path.lstat().st_uid == second.uid, path
        after = victim.stat()
        assert (after.st_uid, after.st_gid) == (before.st_uid, before.st_gid) == (0, 0)
        assert victim.parent.stat().st_uid == 0
    finally:
        shutil.rmtree(folder)


@pytest.mark.parametrize("what", ["link", "fifo", "of another", "long", "gone"])
def test_what_the_account_may_exchange_is_read_only_if_it_is_its_own(
    what: str, victim: Path, tmp_path: Path
) -> None:
    server = Account.of_number(2_000_300_001)
    file = tmp_path / "file"
    if what == "link":
        file.symlink_to(victim)
    elif what == "fifo":
        os.mkfifo(file)
    elif what == "of another":
        os.link(victim, file) if tmp_path.stat().st_dev == victim.stat().st_dev else (
            file.write_text("of root's")
        )
    elif what == "long":
        file.write_text("begin" + "x" * 1000 + "end")
        os.chown(file, server.uid, server.gid)
    assert server_account.read_as_text(file, server, 10) == (
        "xxxxxxxend" if what == "long" else ""
    )


def test_a_folder_in_the_place_of_a_lock_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "socket.lock").mkdir()
    with refused(ErrorId.DATA_FOLDER_NOT_USABLE, LabError, naming="socket.lock"):
        server_account.remove_stale(tmp_path / "socket.lock")


def test_nothing_is_removed_where_a_link_leads(tmp_path: Path) -> None:
    """As one that a recording has in the place of the data folder."""
    other = tmp_path / "other"
    other.mkdir()
    (other / "postmaster.pid").touch()
    (tmp_path / "data").symlink_to(other)
    for folder in ("data", "none"):
        server_account.remove_stale(tmp_path / folder / "postmaster.pid")
    assert (other / "postmaster.pid").exists()
    server_account.remove_stale(other / "postmaster.pid")
    assert not list(other.iterdir())


@pytest.mark.parametrize("below", [".", "mine", "mine/deeper"])
@pytest.mark.parametrize("who", ["all", "owner", "group", "listed"])
def test_a_lab_is_built_in_no_folder_that_others_could_exchange(
    who: str, below: str, tmp_path: Path
) -> None:
    shared, other = tmp_path / "shared", 2_000_300_001
    parent = shared / below
    parent.mkdir(parents=True, mode=0o700)
    if who == "listed":
        let_write(shared, other)
    else:
        shared.chmod({"all": 0o777, "owner": 0o755, "group": 0o2775}[who])
        os.chown(shared, other * (who == "owner"), other * (who == "group"))
    with refused(
        ErrorId.FOLDER_OPEN_TO_OTHERS, LabError, naming=(f"{parent}/lab", str(shared))
    ):
        Lab.start(LabSpec("postgresql", cut="process"), parent / "lab")
    assert not (parent / "lab").exists()


@pytest.mark.parametrize(("uid", "mode"), [(0, 0o777), (2_000_300_001, 0o755)])
def test_programs_of_a_folder_that_others_write_are_not_run(
    uid: int, mode: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tmp_path.chmod(mode)
    os.chown(tmp_path, uid, uid)
    monkeypatch.setattr(programs, "_ROOTS_CACHE", tmp_path)
    with refused(
        ErrorId.FOLDER_OPEN_TO_OTHERS, LabError, naming="not a folder that root alone"
    ):
        programs.mysql_folder()


def test_postgresql_needs_an_account_where_there_are_no_namespaces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is never that of nobody, which other services share."""
    monkeypatch.setattr("dbcheck.lab.namespace.are_available", lambda: False)
    monkeypatch.setattr(server_account, "find_packaged_account", lambda _: None)
    with refused(
        ErrorId.LAB_NOT_BUILDABLE, LabError, naming="useradd --system postgres"
    ):
        Lab.start(LabSpec("postgresql", cut="process"), tmp_path / "lab")
    assert not [why for why in list_missing(LabSpec("mariadb")) if "account" in why]


@pytest.mark.usefixtures("own_mounts")
def test_a_tree_that_cannot_be_given_away_is_beyond_recovery(tmp_path: Path) -> None:
    """As on a damaged ext4, which the kernel lets nobody write to any more."""
    first, second = map(Account.of_number, (2_000_300_001, 2_000_300_002))
    syscalls.mount("none", str(tmp_path), "tmpfs", 0)
    server_account.make_folder(tmp_path / "data", first)
    syscalls.mount("none", str(tmp_path), None, MS_REMOUNT | MS_RDONLY)
    with refused(ErrorId.DATA_FOLDER_NOT_USABLE, Unrecoverable, naming="Read-only"):
        server_account.hand_over(tmp_path / "data", second)
    server_account.hand_over(tmp_path / "no such", second)  # the server says so
    syscalls.umount(str(tmp_path))
