"""Copies of a lab's server that programs take under load, and restore beside it.

The programs are scripts of the shell, as a DBA writes them for dbcheck_restore.  Each
is given the id of the run, by which it names the copy.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy.engine import URL, make_url

from dbcheck.base.processes import make_environment
from dbcheck.config.target import RestoreSettings
from dbcheck.cycle.outcome import Outcome
from dbcheck.cycle.reconciling import reconcile_run
from dbcheck.cycle.rig import Limits, Rig
from dbcheck.engines.registry import open_engine
from dbcheck.judge.item import ItemId, Status
from dbcheck.judge.result import CopyResult
from dbcheck.lab.held_port import HeldPort
from dbcheck.lab.machine import SERVERS
from dbcheck.lab.server_account import Account
from dbcheck.lab.servers.innodb import format_options
from dbcheck.lab.servers.mysql import MysqlServer
from dbcheck.lab.spec import LabSpec
from dbcheck.model.verdict import Verdict
from dbcheck.ports.site import Copying, Node
from dbcheck.power.kinds.command import CopyByPrograms
from dbcheck.power.kinds.manual import ManualConfig
from dbcheck.runs.folder import RunFolder
from dbcheck.site.single import SingleServer
from tests.kit.copy_methods import REMOVE, Method
from tests.kit.lab_access import server_pid
from tests.kit.rigs import Bench, bench
from tests.kit.servers import account_for, skip_without_server
from tests.kit.waiting import wait_until

PROGRAMS_S = 60.0
_LOG_CHARS = 4000
_IMAGE_BYTES = 4 << 30  # of a file with holes
_END_S = 10.0  # for the kernel to end a process that was killed

# What each program begins with.  `wait_for` repeats a command until it succeeds; `end`
# ends the server that works in the copy, by the pid in its file, and no other process:
# a copied file may name another one.
_BEGINNING = """\
#!/bin/sh
set -eu
folder={folder}
copy=$folder/copies/$1
data={data}  # of the server under load
port={port}
from={source_port}
user={user}
database={database}
program="{program}"
as="{run_as}"
on_host="{on_host}"
host_data={host_data}  # as the server itself names them
bin={bin}
ledger={ledger}
url="{url}"
export PATH="$bin:$PATH" PGPASSFILE="$folder/pgpass"
export CLIENT_PASSWORD_FILE="$folder/password"
python() {{ PYTHONPATH={root} {python} "$@"; }}
ask() {{ python "$folder/ask.py" "$url" "$@"; }}
wait_for() {{
    tries=600
    until "$@"; do tries=$((tries - 1)); [ $tries -gt 0 ]; sleep 0.1; done
}}
end() {{
    pid=$(sed -n 1p "$2" 2>/dev/null) || return 0
    [ -n "$pid" ] || return 0
    works() {{ [ "$(readlink "/proc/$pid/cwd")" = "$copy" ]; }}
    while works; do kill -s "$1" "$pid" || true; sleep 0.05; done
}}
"""
# Runs one statement on the server at a port; prints the rows.
_ASK = """\
import sys
from pathlib import Path
from sqlalchemy.engine import make_url
from tests.kit.lab_access import connect

url, port, statement = sys.argv[1:]
password = Path(__file__).with_name("password").read_text()
url = make_url(url).set(port=int(port)).render_as_string()
connection = connect(url, password)
cursor = connection.cursor()
cursor.execute(statement)
for row in cursor.fetchall() if cursor.description else ():
    print(*row)
"""


class Copies:
    """The place where copies of a lab's server are restored.

    here: the lab.  folder: of the copies and the programs.
    source: the folder of the server's data.  pid: the server's first process.
    """

    def __init__(self, here: Bench, folder: Path, source: Path) -> None:
        self.here, self.folder, self.source = here, folder, source
        self.pid = server_pid(here.lab)
        self._host_data = os.readlink(f"/proc/{self.pid}/cwd")
        self._held = HeldPort()
        self.port = self._held.number
        self.url: URL = make_url(here.lab.target_url)
        self.account = self._choose_account()
        self._written = 0
        folder.chmod(0o755)
        (folder / "copies").mkdir()
        self._give(folder / "copies")
        for name, text in (
            ("pgpass", f"*:*:*:*:{here.lab.password}\n"),
            ("client.cnf", f'[client]\npassword="{here.lab.password}"\n'),
            ("password", here.lab.password),
        ):
            (folder / name).touch(0o600)
            (folder / name).write_text(text)
            self._give(folder / name)
        (folder / "ask.py").write_text(_ASK)

    @property
    def target(self) -> str:
        """The URL of the server on the copy."""
        return self.url.set(port=self.port).render_as_string(hide_password=False)

    @property
    def copies(self) -> list[str]:
        """What is left of copies and of servers on them, by name."""
        return sorted(os.listdir(self.folder / "copies"))

    def program(self, text: str) -> tuple[str, ...]:
        """Write a program that does *text*; return the command."""
        self._written += 1
        file = self.folder / f"program-{self._written}"
        file.write_text(self._beginning() + text)
        file.chmod(0o755)
        return (str(file),)

    def settings(
        self, method: Method, timeout_s: float = PROGRAMS_S
    ) -> RestoreSettings:
        """Return the settings of an inventory whose programs are those of *method*."""
        return RestoreSettings(
            restore=self.program(method.restore),
            target=self.target,
            copy=self.program(method.copy) if method.copy else (),
            remove=self.program(method.remove) if method.remove else (),
            timeout_s=timeout_s,
        )

    def rig(
        self,
        settings: RestoreSettings,
        limits: Limits | None = None,
        target: str | None = None,
    ) -> Rig:
        """Return the lab's rig, which copies its server by *settings*.

        target: the URL of another server that is read in place of the restored one.
        """
        rig = self.here.rig
        engine = open_engine(target or self.target, self.here.lab.password)
        restored = SingleServer(Node(engine, ManualConfig().open(None, print)))
        return replace(
            rig,
            site=SingleServer(replace(rig.site.writer, host=None)),
            copying=Copying(CopyByPrograms(settings), restored),
            limits=limits or rig.limits,
        )

    def run(self, text: str, name: str = "by-hand") -> None:
        """Run a program by hand, for the copy of that name."""
        command = [*self.program(text), name]
        _call(*command)

    def remove_all(self) -> None:
        """Remove by hand what is left of copies and of servers on them."""
        for name in self.copies:
            self.run(REMOVE[self.here.engine], name)

    def end_strays(self) -> None:
        """End what a failed test left running here; show the servers' logs."""
        for log in (self.folder / "copies").glob("*.log"):
            show_log(log)
        with contextlib.suppress(subprocess.SubprocessError):
            self.remove_all()

    def find_run(self) -> RunFolder:
        """Return the only run of the lab."""
        (path,) = self.here.rig.runs.iterdir()
        return RunFolder(path)

    def reconcile(self, settings: RestoreSettings) -> Outcome:
        """Return the verdict on the only run once *settings* restore its copy."""
        run = self.find_run()
        return reconcile_run(self.rig(settings), run, run.manifest())

    def list_processes(self) -> list[str]:
        """Return the processes, by id and name, that have to do with this folder."""
        found, folder = [], str(self.folder)
        for process in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                line = (process / "cmdline").read_bytes().decode(errors="replace")
                if int(process.name) == os.getpid():
                    continue
                if folder in line or folder in os.readlink(process / "cwd"):
                    found.append(f"{process.name}: {line}")
        return found

    def is_listening(self) -> bool:
        """Return whether a server is at the port of the restored one."""
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def require_nothing_left(self) -> None:
        """Fail if anything of a copy or its server is left."""
        assert self.copies == []
        wait_until(lambda: not self.is_listening(), "the port is free", _END_S)
        wait_until(lambda: not self.list_processes(), "all processes ended", _END_S)

    def _beginning(self) -> str:
        kind = SERVERS[self.here.engine]
        program = kind.find(kind.needs[0])
        assert program is not None
        account, pid, is_root = self.account, self.pid, os.geteuid() == 0
        run_as = f"setpriv --reuid={account.uid} --regid={account.gid} --clear-groups"
        return _BEGINNING.format(
            folder=self.folder,
            data=self.source,
            port=self.port,
            source_port=self.url.port,
            user=self.url.username,
            database=self.url.database,
            program=" ".join([str(program), "--no-defaults", *self._options()]),
            run_as=run_as if is_root else "",
            on_host=f"nsenter --target={pid} --mount --pid" if is_root else "",
            host_data=self._host_data,
            bin=program.parent,
            root=Path(__file__).parents[2],
            python=sys.executable,
            ledger=self.here.table,
            url=self.url.render_as_string(),
        )

    def _options(self) -> list[str]:
        """Return the paths that a MySQL needs which was not installed."""
        kind = SERVERS[self.here.engine]
        server = kind(self.source, self.folder, self.port)
        if isinstance(server, MysqlServer):
            return format_options({**server._path_settings(), "mysqlx": "OFF"})
        return []

    def _choose_account(self) -> Account:
        """Return the account that runs the restored server, this user's if not root."""
        kind = SERVERS[self.here.engine]
        where = self.folder / "none" if kind.needs_entry else self.source
        account = account_for(kind, where)
        return account or Account(os.geteuid(), os.getegid())

    def _give(self, path: Path) -> None:
        os.chown(path, self.account.uid, self.account.gid)


@contextlib.contextmanager
def copies_of(
    engine: str, limits: Limits | None = None, on: Path | None = None
) -> Iterator[Copies]:
    """Give a place for copies of a lab's server; require that nothing is left of it.

    on: the folder to make the lab in, as `lab`; its filesystem has snapshots.
    """
    skip_without_server(engine)
    folder = Path(tempfile.mkdtemp(prefix="dbcheck-", dir=on))
    folder.chmod(0o755)
    lab = (on or folder) / "lab"
    try:
        with bench(LabSpec(engine, cut="process"), lab, limits) as here:
            place = folder / "place"
            place.mkdir()
            made = Copies(here, place, here.lab.folder / "files/data")
            try:
                yield made
                made.require_nothing_left()
            finally:
                made.end_strays()
    finally:
        shutil.rmtree(folder)


def require_kept(outcome: Outcome) -> CopyResult:
    """Require that a copy has all that it must have, and nothing that it cannot."""
    assert outcome.verdict is Verdict.PASS, outcome.judgement
    items = {item.id: item.status for item in outcome.judgement.items}
    for wanted in (ItemId.COPY_TAKEN, ItemId.COPY_APART, ItemId.COPY_OF_SERVER):
        assert items[wanted] is Status.PRESENT
    copy = outcome.result.copy
    assert copy is not None
    assert copy.due == copy.due_kept
    assert copy.due
    assert copy.after
    assert copy.after_kept == 0
    return copy


def show_log(log: Path) -> None:
    """Print the end of a log for who reads why a test failed."""
    print(log.read_text(errors="replace")[-_LOG_CHARS:])  # noqa: T201


def skip_without_program(name: str) -> None:
    """Skip the test if a program is not here."""
    if shutil.which(name) is None:
        pytest.skip(f"there is no {name}")


@contextlib.contextmanager
def snapshot_storage() -> Iterator[Path]:
    """Give a folder on btrfs whose subvolume `lab` a snapshot can be taken of."""
    skip_without_program("mkfs.btrfs")
    folder = Path(tempfile.mkdtemp(prefix="dbcheck-"))
    image, mounted = folder / "image", folder / "mounted"
    mounted.mkdir()
    try:
        with image.open("wb") as file:
            file.truncate(_IMAGE_BYTES)
        _call("mkfs.btrfs", "-q", str(image))
        _call("mount", "-o", "loop", str(image), str(mounted))
        try:
            folder.chmod(0o755)
            _call("btrfs", "-q", "subvolume", "create", str(mounted / "lab"))
            yield mounted
        finally:
            _call("umount", str(mounted))
    finally:
        shutil.rmtree(folder)


def _call(*command: str) -> None:
    subprocess.run(command, check=True, env=make_environment(), timeout=PROGRAMS_S)
