"""Starts the server that the scripts beside this file are about, and asks it."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time

CANNOT_RUN = 2  # the exit status
ENDS = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGALRM)
LIMIT_S = 3600


def parse(parser):
    """Return the command line; the server's options come after "--"."""
    parser.add_argument("--server", metavar="FILE")
    parser.add_argument("--client", metavar="FILE")
    own = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    asked = parser.parse_args(sys.argv[1:own])
    asked.options = sys.argv[own + 1 :]
    return asked


def find_programs(asked, program):
    """Find the server's *program* and a client in PATH, unless they are named."""
    asked.server = asked.server or program
    asked.client = asked.client or ("mariadb" if shutil.which("mariadb") else "mysql")
    for name in ("server", "client"):
        if not shutil.which(found := getattr(asked, name)):
            sys.exit(print(f"there is no {found}: give --{name}") or CANNOT_RUN)


def require_root():
    """Go on as root in mounts of its own: no mount outlives this process."""
    if os.geteuid():
        sys.exit(print("needs root, for a loop device") or CANNOT_RUN)
    if os.environ.get("MOUNTS") != "own":
        os.environ["MOUNTS"] = "own"
        os.execvp("unshare", ["unshare", "--mount", sys.executable, *sys.argv])


def run(main):
    """Exit with what main() returns, with 2 if it cannot run or a signal ends it."""
    for number in ENDS:
        signal.signal(number, end)
    signal.alarm(LIMIT_S)
    try:
        sys.exit(main())
    except Exception as error:  # whatever it is: 1 would mean "not seen"
        print(f"cannot run: {error}")
    sys.exit(CANNOT_RUN)


def end(*_):
    """End at the first signal, and take no other: the clean-up follows."""
    for number in ENDS:
        signal.signal(number, signal.SIG_IGN)
    raise OSError("ended by a signal, or after an hour")


class Server:
    """A server; it has no accounts, and is reached through a socket in *folder*."""

    def __init__(self, asked, folder, data, *options):
        self.log, self.socket = folder / "log", folder / "s"
        self.client = [asked.client, "--no-defaults", "-uroot", f"-S{self.socket}"]
        self.client += ["--skip-column-names", "--batch"]
        self.command = [asked.server, "--no-defaults", "--skip-networking"]
        self.command += [f"--datadir={data}", f"--socket={self.socket}"]
        self.command += [*options, *asked.options]
        self.process = None

    def version(self):
        """Return what the program says of its version."""
        words = [*self.command[:2], "--version"]
        return subprocess.check_output(words, text=True, stderr=subprocess.DEVNULL)

    def start(self, *more):
        """Start it; return whether it accepts queries, False if it ended."""
        self.kill()
        self.socket.with_name("s.lock").unlink(missing_ok=True)  # of a killed one
        command = ["setpriv", "--pdeathsig=KILL", *self.command, *more]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                command, stdout=log, stderr=log, start_new_session=True
            )
        while self.process.poll() is None:
            if self.ask("select 1") == "1":
                return True
            time.sleep(0.02)
        return False

    def ask(self, statements):
        """Return what the client program says to statements, also an error."""
        asked = subprocess.run(
            self.client, input=statements, capture_output=True, text=True
        )
        return (asked.stdout + asked.stderr).strip()

    def kill(self):
        """End it at once."""
        if self.process:
            self.process.kill()
            self.process.wait()

    def said(self, words):
        """Return the lines that it logged with these words, a regular expression."""
        lines = self.log.read_text(errors="replace").splitlines()
        return [line for line in lines if re.search(words, line)]
