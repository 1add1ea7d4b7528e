#!/usr/bin/env python3
"""Show that MyRocks does not start after a crash in CREATE, ALTER or DROP TABLE.

    python3 myrocks-ddl.py [--server FILE] [--client FILE] [-- OPTION ...]

A server is killed with SIGKILL while a session creates, changes and drops tables, and
is started again, until it does not start.

  control  the same kills, with tables in InnoDB and no MyRocks: it starts after each.

Exit status: 0 MyRocks did not start in two attempts after a kill, and InnoDB did after
each; 1 MyRocks started after each kill as well; 2 it could not be tried.

Needs Linux, Python 3.9, MariaDB with its plugin MyRocks, and a client.  OPTION is
handed to the server, e.g. --plugin-dir=/usr/lib/mysql/plugin.
"""

import argparse
import random
import subprocess
import tempfile
import time
from pathlib import Path

from server import Server, find_programs, parse, run

KILLS, CONTROL_KILLS = 60, 10
OPTIONS = {"rocksdb": ("--plugin-load-add=ha_rocksdb", "--rocksdb=FORCE"), "innodb": ()}
REASON = "Problems validating data dictionary"
TABLES = """
create or replace table d.t{n} (a int primary key, b int) engine={engine};
insert into d.t{n} values (1, 1);
alter table d.t{n} add c int;
drop table d.t{n};
"""


def kill_in_ddl(server, engine):
    """Have tables created, changed and dropped, and kill the server meanwhile."""
    statements = "".join(TABLES.format(n=n % 3, engine=engine) for n in range(300))
    pipe, nowhere = subprocess.PIPE, subprocess.DEVNULL
    command = [*server.client, "--force"]
    with subprocess.Popen(
        command, stdin=pipe, stdout=nowhere, stderr=nowhere
    ) as client:
        client.stdin.write(statements.encode())
        client.stdin.flush()
        time.sleep(0.2 + random.random() * 0.3)  # the kill comes at any moment
        server.kill()
        client.kill()


def kills_until_it_fails(folder, asked, engine, kills):
    """Return after how many kills it does not start, 0 if it always does."""
    folder.mkdir()
    (folder / "data").mkdir()
    options = ("--user=root", "--skip-grant-tables", *OPTIONS[engine])
    server = Server(asked, folder, folder / "data", *options)
    try:
        if not server.start():
            raise OSError(f"the server does not start: {server.log.read_text()}")
        server.ask("create database d; shutdown")  # so that all of it is written
        server.process.wait()
        server.start()
        for number in range(1, kills + 1):
            kill_in_ddl(server, engine)
            if not (server.start() or server.start()):
                show(server)
                return number
        return 0
    finally:
        server.kill()


def show(server):
    """Print why it does not start, and whether a setting helps."""
    if not server.said(REASON):
        raise OSError(f"it does not start: {server.log.read_text()[-2000:]}")
    for line in server.said(f"{REASON}|Schema mismatch")[:4]:
        print("   ", line)
    for words in (["--rocksdb-validate-tables=2"], []):
        print("    with", *words or ["no such option afterwards"], end=": ")
        print("it starts" if server.start(*words) else "it does not start")


def main():
    asked = parse(argparse.ArgumentParser(usage=__doc__.rstrip()))
    find_programs(asked, "mariadbd")
    with tempfile.TemporaryDirectory(prefix="myrocks-") as name:
        print(f"Control: {CONTROL_KILLS} kills with tables in InnoDB.")
        kills_until_it_fails(Path(name, "innodb"), asked, "innodb", CONTROL_KILLS)
        print("Tables in MyRocks:")
        failed = kills_until_it_fails(Path(name, "rocks"), asked, "rocksdb", KILLS)
    print(f"It does not start after kill {failed}." if failed else "It always starts.")
    return 0 if failed else 1


if __name__ == "__main__":
    run(main)
