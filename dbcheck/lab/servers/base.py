"""A real database server of the lab's own: created, started, killed, frozen.

It listens on 127.0.0.1 alone, runs as an unprivileged account, and dies with the
thread that started it.  The lab alone decides some of its settings.
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
from pathlib import Path
from typing import ClassVar

from dbcheck.base import processes
from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import LabError, Unrecoverable, UsageError
from dbcheck.lab import programs, server_account
from dbcheck.lab.certificates import Identity, IdentityFiles
from dbcheck.lab.held_port import HeldPort
from dbcheck.lab.network import Source
from dbcheck.lab.process import kill_group
from dbcheck.lab.server_account import Account
from dbcheck.lab.servers.container import Launcher
from dbcheck.lab.servers.tree import ServerTree
from dbcheck.server_log.startlog import StartOutcome, find_decisive_errors, find_starts

# Modifiers that an option of MySQL's programs may begin with (8.4 manual, 6.2.2.4).
_MODIFIERS = ("skip_", "disable_", "enable_", "maximum_", "loose_")


def standard_name(setting: str) -> str:
    """Return the name of a setting as servers show it, however it was written."""
    return setting.replace("-", "_").lower()


def possible_names(setting: str) -> Iterator[str]:
    """Yield the standard name of a setting, then the name without each modifier."""
    name = standard_name(setting)
    yield name
    while name.startswith(_MODIFIERS):
        name = name.partition("_")[2]
        yield name


def require_undecided(
    settings: Iterable[str], decided: AbstractSet[str], owner: str
) -> None:
    """Raise UsageError if the lab itself decides one of the *settings*.

    owner: whose settings they are, for the message.
    """
    for name in settings:
        if not decided.isdisjoint(possible_names(name)):
            raise UsageError(
                f"the lab decides {name} of {owner} itself",
                id=ErrorId.LAB_DECIDES_SETTING,
                hint="Leave that setting out.",
            )


log = logging.getLogger(__name__)

USER = "dbcheck"
POLL_S = 0.005
LOG_LINES = 30  # last lines of the log that the error of a failed start has
GONE_S = 10.0  # a killed server ends within milliseconds unless it waits for a drive
INITIALISE_S = 120.0
_PASSWORD_BYTES_MAX = 1000
LOG_BYTES_MAX = 32 << 20  # last bytes of the log that are read

# Exit statuses of a process that somebody asked or forced to end.
_SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
ASKED_TO_END = {0} | {-number for number in _SIGNALS}


class DatabaseServer(abc.ABC):
    """One server process on one data folder.

    data:     its data folder; on the drive under test, if there is one.
    run:      folder for log and password, owned by this process; must outlive a power
              cut.  Its subfolder `server` has what the server makes, as its socket.
    port:     0 takes a free port, and keeps it as long as this object lives.
    settings: server settings that override dbcheck's durable ones; may be changed, and
              take effect at the next start.  The value "" stands for a bare option.
    log_folder: for its write-ahead or redo log, on another drive; None: with the data.
    account:  runs the server; None: this process's account does, which is not root.
    """

    name: str  # as in LabSpec.engine
    stop_signal: signal.Signals  # asks for an orderly shutdown
    accounts: ClassVar[tuple[str, ...]]  # accounts that its packages make
    needs_entry: ClassVar[bool]  # its account must be in /etc/passwd
    needs: tuple[str, ...]  # programs of programs.PACKAGES, the server itself first
    decided_by_lab: ClassVar[frozenset[str]]  # settings that users may not give
    restarts: ClassVar[bool] = False  # may leave its port while it runs, and retake it
    tls: IdentityFiles | None = None  # only a node of a cluster has them
    address = ""  # in its cluster's network, beside 127.0.0.1; "" outside of one

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
        # A subfolder, as the root of a drive may hold lost+found as well.
        self.log_data = log_folder / "log" if log_folder else None
        self.run = run
        self._held = None if port else HeldPort(lent=False)
        self.port = self._held.number if self._held else port
        self.settings = dict(settings or {})
        self._account = account
        self.launcher = Launcher()
        self._process: subprocess.Popen[bytes] | None = None
        self._tree: ServerTree | None = None
        self._log_start = 0
        self.adopted = False  # whether another lab's server made the data

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
        """Fill the empty data folder; make the account dbcheck with this password."""

    @abc.abstractmethod
    def _takes_queries(self, pid: int) -> bool:
        """Return True if process *pid*, by its own count, is ready, not in recovery."""

    @classmethod
    def find(cls, name: str) -> Path | None:
        """Return a program that the server needs, None if it is not installed."""
        return programs.find(name)

    # ------------------------------------------------------------ for everyone

    @classmethod
    def missing(cls) -> list[str]:
        """Return for each program that is missing what to install."""
        return [programs.lacking(name) for name in cls.needs if cls.find(name) is None]

    @classmethod
    def version(cls) -> str:
        """Return the version that the server's program prints; raise LabError."""
        return programs.read_version(cls._program(cls.needs[0]))

    @classmethod
    def check_settings(cls, settings: Mapping[str, str]) -> None:
        """Raise UsageError for a setting that the lab decides itself.

        An engine also raises it for a value with which its data cannot be created.
        """
        require_undecided(settings, cls.decided_by_lab, f"the {cls.name} server")

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
        """Folder of the server's account, for files that it makes beside its data."""
        return self.run / "server"

    def server_log(self, lines: int) -> str:
        """Return the last *lines* of the log, "" if there is none."""
        return last_lines(self._read_log_since(0), lines)

    def initialise(self, password: str = "") -> None:
        """Create the data folder and the account dbcheck; "": draw its password.

        The data is in the page cache on return, not necessarily on the drive.
        Raise LabError if the data folder is not empty.
        """
        password = password or secrets.token_urlsafe(18)
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

        This process owns the folder and its files.  The server's account may list it,
        read the log there, and pass through to its own folder, server_run.
        """
        server_account.make_folder(self.run, None, reader=self._account)
        server_account.make_folder(self.server_run, self._account)
        server_account.make_file(self.run / "password", None, password + "\n")

    def set_identity(self, identity: Identity) -> None:
        """Store the certificates by which the nodes of its cluster know the server."""
        self.tls = identity.write(self.run.with_name("tls"), self._account)

    def follow(self, source: Source) -> None:
        """Copy the data of a running server, to follow that server from the start on.

        In place of initialise().  Raise LabError if this server cannot do that.
        """
        raise LabError(
            f"a lab has no standbys of the {self.name} server",
            id=ErrorId.LAB_SERVER_CANNOT_FOLLOW,
            hint="Leave --nodes out.",
        )

    def rejoin(self, source: Source) -> None:
        """Prepare a server that is shut down to follow *source* from its next start on.

        Raise LabError if that fails, or if this kind of server cannot rejoin.
        """
        raise LabError(
            f"a {self.name} server that is shut down cannot rejoin",
            id=ErrorId.LAB_SERVER_CANNOT_FOLLOW,
            hint="Leave --rejoin out.",
        )

    def adopt(self, password: str) -> None:
        """Prepare to start on a data folder that another lab's server made.

        password: of the account dbcheck in that data.
        """
        self.adopted = True
        self._begin_run(password)

    def relocate_log(self) -> None:  # noqa: B027 - most find it by a setting
        """Have the data, a copy that was adopted, use the log at log_data, its own.

        Raise LabError if that cannot be done.
        """

    def start(self, timeout_s: float = 60.0) -> None:
        """Start the server; return once it takes queries, its recovery being over.

        Raise as begin() does, and LabError with no process left if it is not ready
        after timeout_s seconds.
        """
        if not self.begin(timeout_s):
            text = f"{self._describe_delay(timeout_s)}\n{self._find_reason()}"
            self.kill()
            raise LabError(text, id=ErrorId.LAB_SERVER_NOT_STARTED)

    def begin(self, timeout_s: float) -> bool:
        """Start the server; return whether it takes queries after timeout_s seconds.

        If it takes none by then, its recovery goes on.  It ends with the thread that
        calls begin().  Raise Unrecoverable with the decisive lines of its log, and with
        no process left, if the server ends by itself, or reports that its data is
        beyond recovery; another LabError if it could not be started, or if something
        else on this machine ended it.
        """
        if self._process is not None:
            raise LabError(
                f"the {self.name} server is running already",
                id=ErrorId.LAB_SERVER_RUNS_ALREADY,
            )
        self._take_over_data()
        self._launch()
        deadline = time.monotonic() + timeout_s
        try:
            while not self._ready():
                if (failure := self.failure()) is not None:
                    kind = LabError if self.was_ended_from_outside() else Unrecoverable
                    raise kind(
                        f"the {self.name} server did not start: {failure}",
                        id=ErrorId.LAB_SERVER_NOT_STARTED,
                    )
                if time.monotonic() >= deadline:
                    if find_starts(self._read_log()).outcome is StartOutcome.DESTROYED:
                        raise Unrecoverable(
                            f"{self._describe_delay(timeout_s)}\n{self._find_reason()}",
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
        """Send SIGKILL to all its processes and return at once, without a wait."""
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
        self.launcher.withdraw()  # a machine without power accepts no connection
        self.launcher.unmount()

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
        """Explain why it ended by itself; None if it runs, or was not started."""
        if self._process is None or self._process.poll() is None:
            return None
        return f"exit status {self._process.returncode}\n{self._find_reason()}"

    def was_ended_from_outside(self) -> bool:
        """Return True if something else ended it: a signal, a shutdown, a shortage.

        No server ends itself by a signal of ASKED_TO_END: the kernel sends one if
        memory is short, or somebody shuts the server down.  A server that gives up does
        not exit with 0.
        """
        if self._process is None or self._process.poll() is None:
            return False
        was_asked = self._process.returncode in ASKED_TO_END
        return was_asked or programs.is_resource_shortage(self._log_end())

    def pids(self) -> list[int]:
        """Return its processes that live now, the server's first process first."""
        return [] if self._tree is None else self._tree.pids()

    # ----------------------------------------------------------------- inside

    @property
    def _log_account(self) -> Account | None:
        """Owner of the log; None: this process owns it, and the server appends."""
        return None

    def _environment(self) -> dict[str, str]:
        """Return the environment variables of its processes."""
        return {"PATH": processes.make_search_path(), "LC_ALL": "C"}

    @classmethod
    def _program(cls, name: str) -> Path:
        """Return a program that the server needs; raise LabError if it is missing."""
        found = cls.find(name)
        if found is None:
            raise programs.missing_program_error(name)
        return found

    def _ready(self) -> bool:
        process = self._process
        return (
            process is not None
            and process.poll() is None
            and self._takes_queries(self.launcher.own_pid(process.pid))
        )

    def _take_over_data(self) -> None:
        """Give this server's account the data that another lab's server made."""
        if self.adopted and self._account is not None:
            for folder in filter(None, (self.data, self.log_data)):
                server_account.hand_over(folder, self._account)

    def _launch(self) -> None:
        """Start the process; it may not take queries for a while."""
        command, program = self._command()
        if self._held is not None:
            self._held.lend()
        try:
            self.launcher.publish(self.port)
            with open(self.log_file, "ab", opener=server_account.plainly) as server_log:
                if self._log_account is None:
                    server_account.make_readable(server_log.fileno(), self._account)
                self._log_start = server_log.tell()
                self._process = self._spawn(command, server_log.fileno())
        except BaseException:
            self._keep_port()
            raise
        self._tree = ServerTree(self._process, program, self.launcher.path(self.data))

    def _command(self) -> tuple[list[str], Path | None]:
        """Return the command that starts the server, and the program for ServerTree."""
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
            return self.launcher.start(
                command,
                account,
                self._environment(),
                cwd=self.data,
                stdin=stdin,
                stdout=output,
            )
        except OSError as error:
            # A crash state may lack the data folder; elsewhere somebody has moved it.
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

        Raise another LabError if it does not end within INITIALISE_S.
        input_file: what it reads at its standard input.
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
                    message = f"{command[0]} did not end within {INITIALISE_S:g} s"
                    raise LabError(message, id=ErrorId.PROGRAM_FAILED) from None
                raise
        if status != 0:
            text = server_account.read_as_text(output_file, None, LOG_BYTES_MAX)
            raise programs.Failed(
                f"{command[0]} failed with status {status}\n{last_lines(text)}",
                status,
            )

    def _write_secret(self, file: str, text: str) -> Path:
        """Make a file that only the server's account (and root) can read; return it."""
        path = self.run / file
        server_account.make_file(path, self._account, text)
        return path

    def _describe_delay(self, timeout_s: float) -> str:
        return f"the {self.name} server took no queries for {timeout_s:g} s"

    def _find_reason(self) -> str:
        """Return the decisive lines of its log, or its end if none is decisive."""
        return "\n".join(find_decisive_errors(self._read_log())) or self._log_end()

    def _read_log(self) -> str:
        """Read its log since its last start."""
        return self._read_log_since(self._log_start)

    def _log_end(self) -> str:
        return last_lines(self._read_log())

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
        """Let no other process have its port until the server starts again."""
        if self._held is not None:
            self._held.keep()


def last_lines(text: str, most: int = LOG_LINES) -> str:
    """Return the last lines of a text."""
    return "\n".join(text.splitlines()[-most:])
