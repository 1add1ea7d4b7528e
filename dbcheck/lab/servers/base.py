"""A real database server of the lab's own: created, started, killed, frozen.

It listens on 127.0.0.1 alone, runs as an unprivileged account, and dies with the
thread that started it.

The settings of a lab's server, by name, and which of them the lab alone decides.
"""

from __future__ import annotations

import abc
import logging
import os
import secrets
import signal
import subprocess
import time
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from dbcheck.base import processes
from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import LabError, Unrecoverable, UsageError
from dbcheck.lab import programs, server_account
from dbcheck.lab.certificates import Identity, IdentityFiles
from dbcheck.lab.held_port import HeldPort
from dbcheck.lab.process import kill_group
from dbcheck.lab.server_account import Account
from dbcheck.lab.servers.tree import ServerTree
from dbcheck.server_log.startlog import StartOutcome, find_decisive_errors, find_starts

# A program's option may begin with one (MySQL 8.4 manual, 6.2.2.4).
_MODIFIERS = ("skip_", "disable_", "enable_", "maximum_", "loose_")


def standard_name(setting: str) -> str:
    """Return the name of a setting as servers show it, however it was written."""
    return setting.replace("-", "_").lower()


def possible_names(setting: str) -> Iterator[str]:
    """Yield the standard name of a setting, and those without a modifier before it."""
    name = standard_name(setting)
    yield name
    while name.startswith(_MODIFIERS):
        name = name.partition("_")[2]
        yield name


def require_undecided(given: Iterable[str], decided: AbstractSet[str], of: str) -> None:
    """Raise UsageError if a setting was *given* that the lab decides by itself.

    of: whose it is, in messages.
    """
    for name in given:
        if not decided.isdisjoint(possible_names(name)):
            raise UsageError(
                f"the lab decides {name} of {of} itself",
                id=ErrorId.LAB_DECIDES_SETTING,
                hint="Leave that setting out.",
            )


log = logging.getLogger(__name__)

USER = "dbcheck"
POLL_S = 0.005
LOG_LINES = 30  # shown when a server does not start
GONE_S = 10.0  # a killed server that sleeps on no drive is gone in milliseconds
INITIALISE_S = 120.0
_PASSWORD_BYTES_MAX = 1000
LOG_BYTES_MAX = 32 << 20  # of one start that are looked at, the last ones

# How a process exits that was asked to end, or made to.
_SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
ASKED = {0} | {-number for number in _SIGNALS}


@dataclass(frozen=True, slots=True)
class Source:
    """The server that a standby follows: its port on 127.0.0.1, and how to log in.

    member: the name by which it lists the standby.
    """

    port: int
    password: str
    member: str


class DatabaseServer(abc.ABC):
    """One server process on one data folder.

    data:     its data folder; on the drive under test, if there is one.
    run:      folder for log and password, this process's own; must outlive a power
              cut.  What the server makes itself, as its socket, is in `server` below.
    port:     0 takes a free one, and keeps it as long as this object lives.
    settings: server settings over dbcheck's durable ones; may be changed, and
              take effect at the next start.  The value "" stands for a bare option.
    log_folder: for its write-ahead or redo log, on another drive; None: with the data.
    account:  it runs as that one; None: as this process's own, which is not root.
    """

    name: str  # as in LabSpec.engine
    stop_signal: signal.Signals  # asks for an orderly shutdown
    accounts: ClassVar[tuple[str, ...]]  # that its packages make
    needs_entry: ClassVar[bool]  # in /etc/passwd, of its account
    needs: tuple[str, ...]  # of programs.PACKAGES, the server itself first
    own: ClassVar[frozenset[str]]  # settings that the lab alone decides
    restarts: ClassVar[bool] = False  # it may leave its port, and take it again
    tls: IdentityFiles | None = None  # of a node of a cluster

    def __init__(
        self,
        data: Path,
        run: Path,
        port: int = 0,
        settings: Mapping[str, str] | None = None,
        log_folder: Path | None = None,
        account: Account | None = None,
    ) -> None:
        self.data = data
        # What is on a drive of its own has lost+found beside it.
        self.log_data = log_folder / "log" if log_folder else None
        self.run = run
        self._held = None if port else HeldPort(lent=False)
        self.port = self._held.number if self._held else port
        self.settings = dict(settings or {})
        self._account = account
        self._process: subprocess.Popen[bytes] | None = None
        self._tree: ServerTree | None = None
        self._log_start = 0
        self.adopted = False  # another lab's server made the data

    # ----------------------------------------------------- what an engine adds

    @property
    @abc.abstractmethod
    def url(self) -> str:
        """The SQLAlchemy URL of the account dbcheck, without its password."""

    @abc.abstractmethod
    def _arguments(self) -> list[str]:
        """Return the server's arguments; no secret may be among them."""

    @abc.abstractmethod
    def _create(self, password: str) -> None:
        """Fill the empty data folder, with the account dbcheck and that password."""

    @abc.abstractmethod
    def _takes_queries(self, pid: int) -> bool:
        """Return True if the process takes queries, its recovery being over."""

    @classmethod
    def find(cls, name: str) -> Path | None:
        """Return one of the programs it needs, None if that is not installed."""
        return programs.find(name)

    # ------------------------------------------------------------ for everyone

    @classmethod
    def missing(cls) -> list[str]:
        """Say of each program it needs and that is not here what to install."""
        return [programs.lacking(name) for name in cls.needs if cls.find(name) is None]

    @classmethod
    def version(cls) -> str:
        """Return the version that its program prints; raise LabError."""
        return programs.read_version(cls._program(cls.needs[0]))

    @classmethod
    def check_settings(cls, settings: Mapping[str, str]) -> None:
        """Raise UsageError for a setting that the lab decides itself.

        An engine raises it for a value, too, with which its data cannot be created.
        """
        require_undecided(settings, cls.own, f"the {cls.name} server")

    @classmethod
    def port_in(cls, settings: Mapping[str, str]) -> int:
        """Return the port that its settings fix, which the caller reserved; else 0."""
        return 0

    @property
    def password(self) -> str:
        """Password of the account dbcheck; raise LabError before initialise()."""
        try:
            file = self.run / "password"
            held = server_account.read(file, None, _PASSWORD_BYTES_MAX)
            return held.decode("ascii").strip()
        except OSError as error:
            raise LabError(
                f"no password of the {self.name} server is in {self.run}",
                id=ErrorId.LAB_SERVER_NOT_INITIALISED,
                hint="End the lab and start a new one.",
            ) from error

    @property
    def log_file(self) -> Path:
        """The server's log, which grows over all its starts."""
        return self.run / "server.log"

    @property
    def server_run(self) -> Path:
        """The folder of its account's, for what it makes itself beside its data."""
        return self.run / "server"

    def server_log(self, lines: int) -> str:
        """Return the last *lines* of the log, "" if there is none."""
        return last_lines(self._read_log_since(0), lines)

    def initialise(self) -> None:
        """Create the data folder and the account dbcheck.

        The data is in the page cache on return, not necessarily on the drive.
        Raise LabError if the data folder is not empty.
        """
        password = secrets.token_urlsafe(18)
        self._prepare(password)
        log.debug("creating a data folder with %s", self._program(self.needs[-1]))
        self._create(password)

    def _prepare(self, password: str) -> None:
        """Make the empty folders, and note the password of the account dbcheck."""
        for name in self.needs:
            self._program(name)
        if self.data.is_dir() and any(self.data.iterdir()):
            raise LabError(
                f"the data folder {self.data} is not empty",
                id=ErrorId.DATA_FOLDER_NOT_EMPTY,
                hint="Empty it, or start a lab in a new folder.",
            )
        self._begin_run(password)
        for folder in filter(None, (self.data, self.log_data)):
            server_account.make_folder(folder, self._account)

    def _begin_run(self, password: str) -> None:
        """Make the folder beside the data, with the password of the account dbcheck.

        It and its files are this process's own.  The server's account may list it, read
        the log there, and pass through to the folder of its own.
        """
        server_account.make_folder(self.run, None, reader=self._account)
        server_account.make_folder(self.server_run, self._account)
        server_account.make_file(self.run / "password", None, password + "\n")

    def set_identity(self, identity: Identity) -> None:
        """Have the other nodes of its cluster know it, from its first start on."""
        self.tls = identity.write(self.run.with_name("tls"), self._account)

    def follow(self, source: Source) -> None:
        """Copy the data of a running server, as one that follows it from its start on.

        In place of initialise(); raise LabError, also if this kind of server cannot.
        """
        raise LabError(
            f"a lab has no standbys of the {self.name} server",
            id=ErrorId.LAB_SERVER_CANNOT_FOLLOW,
            hint="Leave --nodes out.",
        )

    def rejoin(self, source: Source) -> None:
        """Prepare a server that is shut down to follow *source* from its next start on.

        Raise LabError if that fails, or if this kind of server cannot.
        """
        raise LabError(
            f"a {self.name} server that is shut down cannot rejoin",
            id=ErrorId.LAB_SERVER_CANNOT_FOLLOW,
            hint="Leave --rejoin out.",
        )

    def adopt(self, password: str) -> None:
        """Make what initialise() does beside a data folder that is there already.

        password: of its account dbcheck.
        """
        self.adopted = True
        self._begin_run(password)

    def start(self, timeout_s: float = 60.0) -> None:
        """Start the server; return once it takes queries, its recovery being over.

        Raise as begin() does, and LabError with no process left if it is not ready
        after timeout_s seconds.
        """
        if not self.begin(timeout_s):
            text = f"{self._late(timeout_s)}\n{self._why()}"
            self.kill()
            raise LabError(text, id=ErrorId.LAB_SERVER_NOT_STARTED)

    def begin(self, timeout_s: float) -> bool:
        """Start the server; return whether it takes queries after timeout_s seconds.

        If not, it still recovers, and is left to that.  It ends with the thread that
        calls this, so call it from one that stays.  Raise Unrecoverable with the end
        of its log, and with no process left, if it ends itself, or reports by then that
        its data are beyond recovery; another LabError if it could not be started, or
        if what ended it was this machine.
        """
        if self._process is not None:
            raise LabError(
                f"the {self.name} server is running already",
                id=ErrorId.LAB_SERVER_RUNS_ALREADY,
            )
        self._take_over()
        self._launch()
        deadline = time.monotonic() + timeout_s
        try:
            while not self._ready():
                if (why := self.failure()) is not None:
                    kind = LabError if self.was_ended_from_outside() else Unrecoverable
                    raise kind(
                        f"the {self.name} server did not start: {why}",
                        id=ErrorId.LAB_SERVER_NOT_STARTED,
                    )
                if time.monotonic() >= deadline:
                    if find_starts(self._logged()).outcome is StartOutcome.DESTROYED:
                        raise Unrecoverable(
                            f"{self._late(timeout_s)}\n{self._why()}",
                            id=ErrorId.LAB_SERVER_NOT_STARTED,
                        )
                    return False
                time.sleep(POLL_S)
        except BaseException:
            self.kill()
            raise
        if not self.restarts:
            self._keep_port()
        return True

    def kill_now(self) -> None:
        """Send SIGKILL to all its processes and return at once; kill() waits."""
        if self._tree is not None:
            self._keep_port()
            self._tree.kill_now()

    def kill(self, timeout_s: float = GONE_S) -> None:
        """Kill all its processes and return once they are gone.

        Nothing happens if none is running.  Raise LabError after timeout_s
        seconds; kill() may then be called again.
        """
        if self._tree is not None:
            self.kill_now()
            self._tree.wait_gone(timeout_s)
            self._ended()

    def stop(self, timeout_s: float = 60.0) -> None:
        """Shut it down in an orderly way; raise LabError if it had to be killed."""
        if self._process is None or self._tree is None:
            return
        self._keep_port()
        self._tree.thaw()
        self._process.send_signal(self.stop_signal)
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
            raise LabError(
                f"the {self.name} server did not stop within {timeout_s:g} s",
                id=ErrorId.LAB_SERVER_NOT_STOPPED,
            ) from None
        self.kill()  # what may be left of its children

    def freeze(self) -> None:
        """Stop its processes where they are: a server gone silent."""
        if self._tree is not None:
            self._tree.freeze()

    def thaw(self) -> None:
        """Resume a frozen server."""
        if self._tree is not None:
            self._tree.thaw()

    def failure(self) -> str | None:
        """Explain why it ended by itself; None while it runs or is meant not to."""
        if self._process is None or self._process.poll() is None:
            return None
        return f"exit status {self._process.returncode}\n{self._why()}"

    def was_ended_from_outside(self) -> bool:
        """Return True if something else ended it: a signal, a shutdown, a shortage.

        No server sends itself one of these signals; whoever is short of memory does, or
        shuts it down.  One that gives up by itself does not exit with 0.
        """
        if self._process is None or self._process.poll() is None:
            return False
        asked = self._process.returncode in ASKED
        return asked or programs.is_resource_shortage(self._log_end())

    def pids(self) -> list[int]:
        """Return its processes that live now, the first one first."""
        return [] if self._tree is None else self._tree.pids()

    # ----------------------------------------------------------------- inside

    @property
    def _log_account(self) -> Account | None:
        """Owner of the log: None for this process, as the server only adds to it."""
        return None

    def _environment(self) -> dict[str, str]:
        """Return the variables that its processes have."""
        return {"PATH": processes.make_search_path(), "LC_ALL": "C"}

    @classmethod
    def _program(cls, name: str) -> Path:
        """Return one of the programs it needs; raise LabError if it is not there."""
        found = cls.find(name)
        if found is None:
            raise programs.missing_program_error(name)
        return found

    def _ready(self) -> bool:
        process = self._process
        return (
            process is not None
            and process.poll() is None
            and self._takes_queries(process.pid)
        )

    def _take_over(self) -> None:
        """Give data that another lab's server made to this one's account."""
        if self.adopted and self._account is not None:
            for folder in filter(None, (self.data, self.log_data)):
                server_account.hand_over(folder, self._account)

    def _launch(self) -> None:
        """Start the process; it may not take queries for a while."""
        command, program = self._command()
        if self._held is not None:
            self._held.lend()
        try:
            with open(self.log_file, "ab", opener=server_account.plainly) as server_log:
                if self._log_account is None:
                    server_account.make_readable(server_log.fileno(), self._account)
                self._log_start = server_log.tell()
                self._process = self._spawn(command, server_log.fileno())
        except BaseException:
            self._keep_port()
            raise
        self._tree = ServerTree(self._process, program, self.data)

    def _command(self) -> tuple[list[str], Path | None]:
        """Return the command line that starts it, and the program of ServerTree."""
        program = self._program(self.needs[0])
        return [str(program), *self._arguments()], program

    def _spawn(
        self, command: list[str], output: int, stdin: int = subprocess.DEVNULL
    ) -> subprocess.Popen[bytes]:
        """Start *command* as the account, in the data folder, bound to this thread."""
        account = self._account
        if account is None and os.geteuid() == 0:
            raise LabError(
                f"root does not run {command[0]} as root",
                id=ErrorId.UNPRIVILEGED_ACCOUNT_MISSING,
            )
        try:
            return subprocess.Popen(
                processes.die_with_parent(command),
                cwd=self.data,
                env=self._environment(),
                stdin=stdin,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                user=account.uid if account else None,
                group=account.gid if account else None,
                extra_groups=account.groups if account else None,
            )
        except OSError as error:
            # Of a crash state the folder itself may be missing; else somebody moved it.
            missing = self.adopted and not os.path.isdir(self.data)
            if missing or error.errno in server_account.DAMAGED:
                raise Unrecoverable(
                    f"the data folder {self.data} cannot be entered: {error.strerror}",
                    id=ErrorId.DATA_FOLDER_NOT_USABLE,
                ) from error
            raise LabError(
                f"cannot start {command[0]}: {error}",
                id=ErrorId.DATA_FOLDER_NOT_USABLE,
                hint="Give the server's account search permission (x) on every folder"
                f" above {self.data}.",
            ) from error

    def _run(self, command: list[str], input_file: Path = Path(os.devnull)) -> None:
        """Run *command* as the account to its end; raise Failed if it fails.

        Raise another LabError if it does not end in its time.
        input_file: what it finds at its standard input.
        """
        output_file = self.run / "initialise.log"
        with (
            open(output_file, "w+b", opener=server_account.plainly) as output,
            open(input_file, "rb", opener=server_account.plainly) as stdin,
        ):
            process = self._spawn(command, output.fileno(), stdin.fileno())
            try:
                status = process.wait(INITIALISE_S)
            except BaseException as error:
                kill_group(process.pid)
                process.wait()
                if isinstance(error, subprocess.TimeoutExpired):
                    late = f"{command[0]} did not end within {INITIALISE_S:g} s"
                    raise LabError(late, id=ErrorId.PROGRAM_FAILED) from None
                raise
        if status != 0:
            said = server_account.read_as_text(output_file, None, LOG_BYTES_MAX)
            raise programs.Failed(
                f"{command[0]} failed with status {status}\n{last_lines(said)}", status
            )

    def _write_secret(self, file: str, text: str) -> Path:
        """Make a file that only the server's account (and root) can read; return it."""
        path = self.run / file
        server_account.make_file(path, self._account, text)
        return path

    def _late(self, timeout_s: float) -> str:
        return f"the {self.name} server took no queries for {timeout_s:g} s"

    def _why(self) -> str:
        """Return the decisive lines of its log, or its end if none is decisive."""
        return "\n".join(find_decisive_errors(self._logged())) or self._log_end()

    def _logged(self) -> str:
        """Read its log since its last start."""
        return self._read_log_since(self._log_start)

    def _log_end(self) -> str:
        return last_lines(self._logged())

    def _read_log_since(self, start: int) -> str:
        """Read the log after byte *start*, "" if nothing is there."""
        return server_account.read_as_text(
            self.log_file, self._log_account, LOG_BYTES_MAX, start
        )

    def _ended(self) -> None:
        """Forget the processes, which are gone."""
        self._process = None
        self._tree = None

    def _keep_port(self) -> None:
        """Let nobody else have its port, nor who waits for its end, until it starts."""
        if self._held is not None:
            self._held.keep()


def last_lines(text: str, most: int = LOG_LINES) -> str:
    """Return the last lines of a text."""
    return "\n".join(text.splitlines()[-most:])
