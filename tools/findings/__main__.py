"""Runs the scripts of docs/findings: `python -m tools.findings [NAME ...]`.

Each one starts a server of this machine, and exits with 0 if it shows its finding.  A
recording is replayed, by a server of the release that it was made with or a newer one.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time

from dbcheck.lab.programs import find_mysqld, find_rocksdb
from tools.findings import RECORDINGS, REPLAY, SCRIPTS, SEEN, UNSEEN, loads

_SAID = {SEEN: "seen", UNSEEN: "not seen"}


def command(name: str, server: str) -> list[str]:
    """Return the command that shows a finding.

    server: its program; "" for the one of this machine.
    """
    words = [SCRIPTS[name]] if name in SCRIPTS else [REPLAY, RECORDINGS[name]]
    if not server and name.startswith("mysql"):
        server = str(find_mysqld() or "")
    named = ["--server", server] if server else []
    if name.startswith("myrocks") and (plugin := find_rocksdb()):
        named += ["--", f"--plugin-dir={plugin.parent}"]
    return [sys.executable, *map(str, words), *named]


def main() -> int:
    """Run the scripts that are named, or all; 1 if one did not show its finding."""
    names = sorted(SCRIPTS | RECORDINGS)
    parser = argparse.ArgumentParser(prog="python -m tools.findings")
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(names))
    parser.add_argument("--times", type=int, default=1, help="run each so many times")
    parser.add_argument("--server", default="", help="the program, for all of them")
    args = parser.parse_args()
    if unknown := set(args.names) - set(names):
        parser.error(f"no finding is called {', '.join(sorted(unknown))}")
    missed = 0
    for name in args.names or names:
        for time_no in range(1, args.times + 1):
            began = time.monotonic()
            done = subprocess.run(
                command(name, args.server), capture_output=True, text=True
            )
            missed += done.returncode != SEEN
            result = _SAID.get(done.returncode, "cannot run")
            sys.stdout.write(
                f"{name:20} {time_no:3} {result:10} {loads(done.stdout):3} loads"
                f" {time.monotonic() - began:4.0f} s\n"
            )
            if args.times == 1 or done.returncode != SEEN:
                sys.stdout.write(done.stdout + done.stderr)
            sys.stdout.flush()
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
