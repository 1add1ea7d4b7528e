"""A real SSH server on loopback, the way to the lab's witness."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import pwd
import signal
import socket
import subprocess
import time
from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from dbcheck.base import processes
from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import LabError
from dbcheck.lab import programs
from dbcheck.lab.held_port import HeldPort

_READY_TIMEOUT_S = 30.0
_END_TIMEOUT_S = 5.0
_POLL_S = 0.02
# SHLVL=2 keeps a Bash that sshd starts from reading the user's ~/.bashrc, which it does
# only if SHLVL is below 2 (Debian's bash, shell.c): the file may be slow, and has
# nothing to do with the lab.
_SSHD_CONFIG = """\
SetEnv SHLVL=2
ListenAddress 127.0.0.1:{port}
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/authorized_keys
AllowUsers {user}
PidFile none
StrictModes no
UsePAM no
UseDNS no
PubkeyAuthentication yes
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
MaxSessions 64
MaxStartups 64
ClientAliveInterval 5
ClientAliveCountMax 3
PrintMotd no
PrintLastLog no
"""


class Sshd:
    """OpenSSH's sshd, or asyncssh where sshd is not installed.

    It runs as the current user, lets in that user alone, by one key, and uses nothing
    of the machine's own SSH configuration.  The server is killed when the thread that
    called start() ends (prctl(2), PR_SET_PDEATHSIG): call start() from a thread that
    lives as long as the lab.
    """

    host = "127.0.0.1"

    def __init__(self, folder: Path) -> None:
        """Keep keys, configuration and log in *folder*, which start() creates."""
        self._folder = folder
        self._child: subprocess.Popen[bytes] | None = None
        self._held = HeldPort()
        self.port = self._held.number
        self.user = pwd.getpwuid(os.getuid()).pw_name
        self.identity_file = folder / "client_key"
        self.known_hosts = folder / "known_hosts"

    def start(self) -> None:
        """Start the server; return once it accepts connections.

        Raise LabError if no server is installed, or if it does not start.
        """
        self._folder.mkdir(mode=0o700, exist_ok=True)
        host_key = _make_key(self._folder / "host_key")
        (self._folder / "authorized_keys").write_text(_make_key(self.identity_file))
        self.known_hosts.write_text(f"[{self.host}]:{self.port} {host_key}")
        self._launch(self._command())
        if self._wait_until_ready():
            return
        self.close()
        lines = (self._folder / "log").read_text(errors="replace").splitlines()
        raise LabError(
            f"the lab's SSH server does not start: {' | '.join(lines[-3:])}",
            id=ErrorId.LAB_SSH_NOT_STARTED,
            hint=f"See its log in {self._folder} and its manual, sshd(8).",
        )

    def close(self) -> None:
        """End the server, its sessions and what runs in them.

        Raise LabError if the server does not end; close() may be called again then.
        """
        child = self._child
        if child is None:
            return
        # A stopped server opens no session while the present sessions are killed.
        child.send_signal(signal.SIGSTOP)
        for pid in _list_descendants(child.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        child.kill()
        try:
            child.wait(_END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            raise LabError(
                f"the lab's sshd, process {child.pid}, does not end after SIGKILL",
                id=ErrorId.PROCESSES_DO_NOT_END,
                hint="Wait until it has ended, then run `dbcheck lab down`.",
            ) from None
        self._child = None

    def _command(self) -> list[str]:
        """Return the command line of the SSH server that this machine has."""
        folder = self._folder
        if binary := _find_openssh():
            text = _SSHD_CONFIG.format(port=self.port, folder=folder, user=self.user)
            (folder / "config").write_text(text)
            if os.getuid() == 0:
                # As root, sshd does not start without this folder.
                Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
            return [binary, "-D", "-e", "-f", str(folder / "config")]
        if _find_asyncssh():
            arguments = (str(folder), str(self.port))
            return processes.make_module_command("dbcheck.lab.ssh.fallback", *arguments)
        raise programs.missing_program_error("sshd")

    def _launch(self, command: list[str]) -> None:
        with (self._folder / "log").open("wb") as errors:
            self._child = subprocess.Popen(
                processes.die_with_parent(command),
                env=processes.make_environment(),
                stdin=subprocess.DEVNULL,
                stdout=errors,
                stderr=errors,
                start_new_session=True,  # Ctrl-C ends the lab, and the lab ends sshd
            )

    def _wait_until_ready(self) -> bool:
        """Wait until the server greets; return False if it ended or takes too long."""
        assert self._child is not None
        deadline_s = time.monotonic() + _READY_TIMEOUT_S
        while self._child.poll() is None and time.monotonic() < deadline_s:
            with contextlib.suppress(OSError):
                address = (self.host, self.port)
                with socket.create_connection(address, timeout=1) as greeting:
                    if greeting.recv(4) == b"SSH-":
                        return True
            time.sleep(_POLL_S)
        return False


def list_missing() -> list[str]:
    """List what must be installed or mended for an SSH server; [] if it can run."""
    if _find_openssh() or _find_asyncssh():
        return []
    if programs.find("sshd"):
        return [
            "sshd would refuse root, whose account is locked (unlock it, or install "
            f"the Python extra dbcheck[lab], for its {programs.WHEELS['sshd']})"
        ]
    return [programs.lacking("sshd")]


def _find_openssh() -> str | None:
    """Return the path of an sshd that would let this user in, None without one."""
    sshd = programs.find("sshd")
    return None if sshd is None or _root_is_locked() else str(sshd)


def _find_asyncssh() -> bool:
    return importlib.util.find_spec("asyncssh") is not None


def _root_is_locked() -> bool:
    """Return True if sshd, started by root, would find root's account locked.

    Without PAM sshd refuses an account whose password begins with "!" (sshd(8)); the
    sshd of an ordinary user cannot read /etc/shadow, so it refuses none.
    """
    try:
        lines = Path("/etc/shadow").read_text().splitlines()
    except OSError:
        return False
    return any(line.startswith("root:!") for line in lines)


def _make_key(path: Path) -> str:
    """Write a new private key to *path*; return its public key, as one line."""
    key = Ed25519PrivateKey.generate()
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.OpenSSH,
        serialization.NoEncryption(),
    )
    path.unlink(missing_ok=True)
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(private)
    public = key.public_key().public_bytes(
        serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
    )
    return public.decode() + "\n"


def _list_descendants(pid: int) -> list[int]:
    """Return the children of *pid*, their children and so on."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError):
            # pid (name) state parent ..., and a name may hold anything: proc(5)
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(entry.name))
    descendants = list(children.get(pid, ()))
    for child in descendants:  # the list grows while it is walked
        descendants += children.get(child, ())
    return descendants
