#!/usr/bin/env python3
"""Show that MariaDB lists a table again whose DROP TABLE it had acknowledged.

    python3 mariadb-dropped-name.py [--server FILE] [--client FILE] [-- OPTION ...]

A server works on a filesystem of its own, XFS on a loop device.  As soon as DROP TABLE
is answered, the device is copied: that is what a drive holds that loses its power then
and has kept every write that reached it.  A server is started on the copy.

  power loss  the copy is made at once.
  control     the filesystem is synced between the answer and the copy.

Exit status: 0 the name was listed after the power loss and not in the control; 1 it was
not; 2 it could not be tried.

Needs Linux, root (for a loop device), mkfs.xfs, Python 3.9, MariaDB and its client.
"""

import argparse
import os
import signal
import subprocess
import tempfile
from pathlib import Path

from server import CANNOT_RUN, Server, find_programs, parse, require_root, run

TRIES = 10


def mount(image, drive):
    subprocess.run(["mount", "-o", "loop,nouuid", image, drive], check=True)


def start(asked, folder):
    """Start a server on the drive."""
    options = ("--user=root", "--skip-grant-tables")
    server = Server(asked, folder, folder / "drive/data", *options)
    if not server.start():
        raise OSError(f"the server did not start: {server.log.read_text()}")
    return server


def drop_and_copy(folder, image, copy, asked, synced):
    """Copy the drive as soon as DROP TABLE is answered."""
    drive, server = folder / "drive", None
    image.write_bytes(b"")
    os.truncate(image, 1 << 30)
    subprocess.run(["mkfs.xfs", "-q", image], check=True)
    try:
        mount(image, drive)
        (drive / "data").mkdir()
        server = start(asked, folder)
        server.ask("create database d")
        server.ask("create table d.t (id int primary key, v int) engine=innodb")
        server.ask("insert into d.t values (1, 1)")
        server.ask("shutdown")
        server.process.wait()
        sync = ["sync", "--file-system", drive]
        subprocess.run(sync, check=True)
        server = start(asked, folder)
        if refused := server.ask("drop table d.t"):
            raise OSError(f"DROP TABLE was refused: {refused}")
        if synced:
            subprocess.run(sync, check=True)
        os.kill(server.process.pid, signal.SIGSTOP)
        subprocess.run(["cp", "--sparse=always", image, copy], check=True)
    finally:
        leave(server, drive)


def leave(server, drive):
    """End the server and unmount the drive, as far as they are there."""
    if server:
        server.kill()
    subprocess.run(["umount", drive])


def is_listed(folder, asked, synced):
    """Return whether the dropped table is listed after a power loss."""
    copy, server = folder / "copy.img", None
    drop_and_copy(folder, folder / "drive.img", copy, asked, synced)
    try:
        mount(copy, folder / "drive")
        server = start(asked, folder)
        listed = server.ask("show tables from d")
        print("    SHOW TABLES:", listed or "none")
        if listed:
            print("    SELECT:", server.ask("select * from d.t").splitlines()[-1])
            print("    DROP TABLE:", server.ask("drop table d.t") or "OK")
            print("    SHOW TABLES:", server.ask("show tables from d") or "none")
        return listed == "t"
    finally:
        leave(server, folder / "drive")


def main():
    asked = parse(argparse.ArgumentParser(usage=__doc__.rstrip()))
    find_programs(asked, "mariadbd")
    require_root()
    with tempfile.TemporaryDirectory(prefix="dropped-") as name:
        folder = Path(name)
        (folder / "drive").mkdir()
        print("Control: the filesystem is synced before the power loss.")
        if is_listed(folder, asked, synced=True):
            return CANNOT_RUN
        for number in range(1, TRIES + 1):
            print(f"Power loss {number}:")
            if is_listed(folder, asked, synced=False):
                return 0
    return 1


if __name__ == "__main__":
    run(main)
