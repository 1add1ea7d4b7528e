"""The processes of a database server on this host.

This file is sent to the target's host, see serve.py: Python 3.8, no more than
the standard library and remote/wire.py.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator

from dbcheck.remote.wire import Refusal, first_line

PROCESSES = "/proc"
SERVERS = ("postgres", "mysqld", "mariadbd")  # proc(5), comm; a title changes it not


def of_server(directory: str) -> Iterator[str]:
    """Yield the folder in /proc of each process of the server of *directory*.

    PostgreSQL, MySQL and MariaDB all change to their data directory (proc(5), cwd),
    which only their own account and root may see.  Any account may give a process their
    name, and change to a directory that it may search; so the process must belong to
    the directory's owner.  That of one which changed its account is root's (proc(5)).
    """
    wanted = os.path.realpath(directory)
    try:
        account = os.stat(wanted).st_uid
    except OSError:
        return
    yield from of_account(wanted, account)


def of_account(directory: str, account: int) -> Iterator[str]:
    """Do what of_server() does, for a directory that may be on a dead drive.

    directory: with links followed.  account: of its owner.
    """
    for name in os.listdir(PROCESSES):
        folder = os.path.join(PROCESSES, name)
        try:
            works_there = name.isdigit() and os.readlink(folder + "/cwd") == directory
            works_there = works_there and os.stat(folder).st_uid in (account, 0)
        except OSError:  # it ended, or is another account's
            continue
        if works_there and first_line(folder + "/comm") in SERVERS:
            yield folder


def error_file(directory: str) -> str:
    """Return the file that the server's standard error goes to, "" if it is not a file.

    Raise Refusal if what is written there cannot be read.
    """
    for folder in of_server(directory):
        link = folder + "/fd/2"
        try:
            path, status = os.readlink(link), os.stat(link)
        except OSError:
            continue
        if stat.S_ISCHR(status.st_mode):
            raise Refusal("log", "the server's standard error goes to " + path)
        if not stat.S_ISREG(status.st_mode):  # a pipe, or the socket of the journal
            return ""
        if not (os.path.exists(path) and os.path.samestat(os.stat(path), status)):
            # It was deleted, or the path is one inside a container.
            raise Refusal("log", "the server's log is not on this filesystem: " + path)
        return path
    return ""
