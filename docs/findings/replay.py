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
import re
import subprocess
import tempfile
from pathlib import Path

from server import CANNOT_RUN, Server, find_programs, parse, require_root, run


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


def release(said):
    """Return the release that a server says it is, as (major, minor)."""
    return tuple(map(int, re.search(r"Ver (\d+)\.(\d+)", said).groups()))


def show(folder, facts, content, asked, lossy):
    """Recover a drive; return whether the server did as the finding says."""
    mounted = folder / "drive"
    mounted.mkdir(exist_ok=True)
    own = ["--user=root", "--skip-grant-tables", *facts["options"]]
    server = Server(asked, folder, mounted / "data", *own)
    build_drive(folder / "drive.img", facts, content, lossy)
    try:
        options = "loop,nouuid" if content[:4] == b"XFSB" else "loop"
        mount = ["mount", "-o", options, folder / "drive.img", mounted]
        subprocess.run(mount, check=True)
        started = server.start() or (lossy and server.start())
        print("    The server", "starts." if started else "does not start.")
        if started:
            query = "check table {0}; select count(*) from {0}"
            answers = [server.ask(query.format(table)) for table in facts["tables"]]
            print("\n".join(answers))
            return not lossy and "error" not in " ".join(answers).lower()
        for line in server.said("|".join(facts["log"]))[:6] or server.said("")[-6:]:
            print("   ", line[:300])
        return lossy and bool(server.said(facts["log"][0]))
    finally:
        server.kill()
        subprocess.run(["umount", mounted])


def main():
    parser = argparse.ArgumentParser(usage=__doc__.rstrip())
    parser.add_argument("recording", type=argparse.FileType("rb"))
    asked = parse(parser)
    with lzma.open(asked.recording) as file:
        facts, content = json.loads(file.readline()), file.read()
    find_programs(asked, facts["program"])
    require_root()
    print(f"Recorded with {facts['server']}: {facts['cut']}.")
    if release(Server(asked, Path(), Path()).version()) < release(facts["server"]):
        print(f"{asked.server} is of an older release: name a newer one (--server)")
        return CANNOT_RUN
    print("No flush covers the last writes.  After the power loss the drive lacks:")
    print("   ", "\n    ".join(facts["lost"]))
    with tempfile.TemporaryDirectory(prefix="replay-") as name:
        print("Control: the drive has every write.")
        if not show(Path(name), facts, content, asked, lossy=False):
            return CANNOT_RUN
        print("Power loss:")
        return 0 if show(Path(name), facts, content, asked, lossy=True) else 1


if __name__ == "__main__":
    run(main)
