#!/usr/bin/env python3
"""Show what a database server does after a recorded power loss.

    python3 replay.py RECORDING [--server FILE] [--client FILE] [-- OPTION ...]

RECORDING holds a drive: all that a completed flush covers, and each later write with
what of it had reached the drive when the power went.  Twice a drive is built from it,
as a file, and mounted, and the server recovers it:

  control     every write is there: the power stayed until the drive had them all.
  power loss  the writes, or parts of them, that the drive still held in its volatile
              cache are gone.  No flush covers them, so a drive may lose them.

Exit status: 0 the server recovered the control, and did not start in two attempts
after the power loss, for the reason in question; 1 it started, or had another reason;
2 it could not be tried, or the control did not recover.

Needs Linux, root (for a loop device), Python 3.9 and the server; --client is mariadb
or mysql.  The server gets each OPTION, e.g. --lc-messages-dir=/opt/mysql/share.
"""

import argparse
import json
import lzma
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path


def build_drive(path, facts, content, lossy):
    """Write the drive's file; lossy: without what the power loss took."""
    at = 0
    with path.open("wb") as drive:
        drive.truncate(facts["drive_bytes"])
        for offset, length in facts["base"]:
            drive.seek(offset)
            drive.write(content[at : at + length])
            at += length
        for write in facts["writes"]:
            parts = write["kept"] if lossy else [[0, write["length"]]]
            for begin, length in parts:
                drive.seek(write["offset"] + begin)
                drive.write(content[at + begin : at + begin + length])
            at += write["length"]


class Server:
    """A server on the drive's data folder, which it may recover."""

    def __init__(self, folder, facts, asked):
        self.socket, self.log = folder / "socket", folder / "log"
        self.client = [asked.client, "--no-defaults", f"--socket={self.socket}"]
        own = [f"--datadir={folder}/drive/data", f"--socket={self.socket}"]
        self.command = [
            *("setpriv", "--pdeathsig=KILL", asked.server, "--no-defaults"),
            *("--user=root", "--skip-networking", "--skip-grant-tables", *own),
            *(*facts["options"], *asked.options),
        ]
        self.process = None

    def start(self):
        """Start it; return whether it accepts queries, False if it ended."""
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(self.command, stdout=log, stderr=log)
        while self.process.poll() is None:
            if self.ask("select 1") == "1":
                return True
            time.sleep(0.2)
        return False

    def ask(self, statements):
        command = [*self.client, "--skip-column-names", "--batch", "-e", statements]
        done = subprocess.run(command, capture_output=True, text=True)
        return (done.stdout + done.stderr).strip()

    def stop(self):
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def said(self, words):
        lines = self.log.read_text(errors="replace").splitlines()
        return [line for line in lines if any(word in line for word in words)]


def show(folder, facts, content, asked, lossy):
    """Recover a drive; return whether the server did as the finding says."""
    mounted, server = folder / "drive", Server(folder, facts, asked)
    mounted.mkdir(exist_ok=True)
    build_drive(folder / "drive.img", facts, content, lossy)
    try:
        options = "loop,nouuid" if content[:4] == b"XFSB" else "loop"
        mount = ["mount", "-o", options, folder / "drive.img", mounted]
        subprocess.run(mount, check=True)
        started = server.start() or (lossy and server.start())
        print("    The server", "starts." if started else "does not start.")
        if started:
            for table in facts["tables"]:
                print(server.ask(f"check table {table}; select count(*) from {table}"))
            return not lossy
        for line in server.said(facts["log"])[:6] or server.said([""])[-6:]:
            print("   ", line[:300])
        return lossy and bool(server.said(facts["log"][:1]))
    finally:
        server.stop()
        subprocess.run(["umount", mounted])


def main():
    parser = argparse.ArgumentParser(usage=__doc__.rstrip())
    parser.add_argument("recording", type=argparse.FileType("rb"))
    parser.add_argument("--server")
    parser.add_argument("--client", default=shutil.which("mariadb") or "mysql")
    own = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    asked = parser.parse_args(sys.argv[1:own])
    asked.options = sys.argv[own + 1 :]
    with lzma.open(asked.recording) as file:
        facts, content = json.loads(file.readline()), file.read()
    asked.server = asked.server or shutil.which(facts["program"])
    if os.geteuid() or not asked.server or not shutil.which(asked.client):
        print(f"needs root, {facts['program']} (--server) and a client (--client)")
        return 2
    if os.environ.get("REPLAY") != "apart":  # no mount outlives this process
        os.environ["REPLAY"] = "apart"
        os.execvp("unshare", ["unshare", "--mount", sys.executable, *sys.argv])
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: sys.exit(2))
    print(f"Recorded with {facts['server']}: {facts['cut']}.")
    print("No flush covers the last writes.  After the power loss the drive lacks:")
    print("   ", "\n    ".join(facts["lost"]))
    with tempfile.TemporaryDirectory(prefix="replay-") as name:
        print("Control: the drive has every write.")
        if not show(Path(name), facts, content, asked, lossy=False):
            return 2
        print("Power loss:")
        return 0 if show(Path(name), facts, content, asked, lossy=True) else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (OSError, EOFError, lzma.LZMAError, subprocess.SubprocessError) as error:
        sys.exit(print(f"It could not be tried: {error}") or 2)
