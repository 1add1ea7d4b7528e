"""A server on files of its own, whose pages and doublewrite buffer can be read."""

import argparse
import os
import pwd
import re
import shutil
import tempfile
import time
from pathlib import Path

import server
from server import find_programs, parse

# Small files; and no page is written before write_out() has it written.
ALL = """skip-networking skip-stack-trace innodb-buffer-pool-size=16M
 loose-innodb-redo-log-capacity=8M loose-innodb-log-file-size=8M
 loose-innodb-doublewrite-pages=128 loose-innodb-idle-flush-pct=0
 loose-innodb-lru-scan-depth=100"""
MYSQL = """secure-file-priv=NULL disable-log-bin loose-mysqlx=OFF performance-schema=OFF
 log-error-verbosity=3"""
NEW = "initialize-insecure innodb-doublewrite=OFF innodb-flush-log-at-trx-commit=0"
CHECKPOINT, END = "Last checkpoint at", "Log sequence number"
ROWS = "select left(v, 1), count(*) from d.t group by 1 order by 1; check table d.t"
DIRTY = "show global status like 'innodb_buffer_pool_pages_dirty'"
PERCENT = "set global innodb_max_dirty_pages_pct"
IDLE = "/*!80018 set global innodb_idle_flush_pct"


def options(words):
    """Return words as options of a server."""
    return [f"--{word}" for word in words.split()]


class Server(server.Server):
    """A server on a folder of its own; a patch is (file, place in it, bytes)."""

    def __init__(self, asked, folder):
        self.size = asked.page_size
        self.data, self.kept = folder / "data", folder / "kept"
        small = options(f"innodb-page-size={self.size} {ALL}")
        super().__init__(asked, folder, self.data, *small)

    def create(self):
        """Make the data folder, and start the server."""
        self.data.mkdir()
        if "MariaDB" in self.version():  # it makes what InnoDB needs when it starts
            self.command.append("--skip-grant-tables")
        else:
            self.command += options(MYSQL)
            self.start(*options(NEW))
        if not self.start():
            raise OSError(f"the server does not start: {self.log.read_text()}")
        print(self.sql("select version(), @@innodb_flush_method, @@innodb_page_size"))
        self.sql("create database d")

    def sql(self, text, accepted="no error"):
        """Return what the client program says, in one line; raise an error."""
        said = " ".join(self.ask(text).split())
        if "ERROR" in said and accepted not in said:
            raise OSError(f"{text[:60]}: {said}; the log has: {self.why('ERROR')}")
        return said

    def why(self, words):
        """Return the first line with these words that the server logged."""
        return next(iter(self.said(words)), "(no such line)")

    def rows(self):
        """Return how many rows have each letter, and what CHECK TABLE says."""
        said = self.sql(ROWS, "ERROR").replace(" d.t check status", "; CHECK TABLE")
        return said[said.find("ERROR") :] if "ERROR" in said else said

    def log_lsn(self, name):
        """Return what the server says of its log: CHECKPOINT, or its END."""
        return int(
            re.search(rf"{name}\D+(\d+)", self.sql("show engine innodb status"))[1]
        )

    def fill(self, table, rows):
        """Make a table with so many rows of "a"."""
        self.sql(f"create table d.{table} (id int primary key, v varchar(1000))")
        number = f"select 1 union all select i + 1 from n where i < {rows}"
        row = "select i, repeat('a', 1000) from n"
        self.sql(f"insert into d.{table} with recursive n (i) as ({number}) {row}")

    def write_out(self, checkpoint=True):
        """Have all changed pages written, and then a checkpoint."""
        end = self.log_lsn(END)
        self.sql(f"{PERCENT}_lwm = 0; {PERCENT} = 0; {IDLE} = 100 */")
        while self.sql(DIRTY)[-2:] != " 0" or (
            checkpoint and self.log_lsn(CHECKPOINT) < end
        ):
            time.sleep(0.02)
        self.sql(f"{PERCENT} = 99; {IDLE} = 0 */")

    def heads(self):
        """Return the heads of the redo log files, with the checkpoints, as patches."""
        files = [*self.data.glob("*/#ib_redo*[0-9]"), *self.data.glob("ib_logfile*")]
        names = [str(file.relative_to(self.data)) for file in files]
        return [(name, 0, (self.data / name).read_bytes()[:2048]) for name in names]

    def pages(self, name):
        """Return the pages of a file."""
        content = (self.data / name).read_bytes()
        return [content[n : n + self.size] for n in range(0, len(content), self.size)]

    def slots(self):
        """Return the doublewrite buffer as [(file, number, page)], in its order."""
        files = sorted(file.name for file in self.data.glob("#ib_*.dblwr"))
        found = [(f, n, page) for f in files for n, page in enumerate(self.pages(f))]
        return found or [("ibdata1", n, p) for n, p in enumerate(self.pages("ibdata1"))]

    def attempt(self, *patches, more=""):
        """Start the server on the files that were kept, with these patches."""
        self.kill()
        shutil.rmtree(self.data, ignore_errors=True)
        shutil.copytree(self.kept, self.data)
        for name, at, content in patches:
            with (self.data / name).open("r+b") as file:
                file.seek(at)
                file.write(content)
        return self.start(*options(more))


def lsn(page):
    """Return the log sequence number of the last change of a page."""
    return int.from_bytes(page[16:24], "big")


def copies(slots, page):
    """Return the slots with whole copies of this page, in their order."""
    same = [s for s in slots if s[2][4:8] + s[2][34:38] == page[4:8] + page[34:38]]
    return [s for s in same if s[2][20:24] in (s[2][-4:], s[2][-8:-4])]


def batch(before, after):
    """Return the slots that were written, if one batch took them; otherwise none."""
    written = sorted(set(after) - set(before))
    return written if len({(f, n // 128) for f, n, _ in written}) == 1 else []


def main(check):
    """Run check(server, asked), which tells whether the finding was seen."""
    parser = argparse.ArgumentParser(epilog="after --: more options of the server")
    parser.add_argument("--tear", type=int, action="append", help="bytes; 512 and 4096")
    parser.add_argument("--page-size", type=int, default=16384)
    parser.add_argument("--loads", type=int, default=60, help="after which it gives up")
    asked = parse(parser)
    mariadb = Path(parser.prog).name.startswith("mariadb")
    find_programs(asked, "mariadbd" if mariadb else "mysqld")
    asked.tear = asked.tear or [n for n in (512, 4096) if n < asked.page_size]
    if any(not 0 < tear < asked.page_size for tear in asked.tear):
        parser.error("--tear: less than a page")
    if os.geteuid() == 0:  # mysqld does not run as root
        users = {user.pw_name: user for user in pwd.getpwall()}
        user = users.get("mysql") or users["nobody"]
        os.setgroups([])
        os.setgid(user.pw_gid)
        os.setuid(user.pw_uid)
    with tempfile.TemporaryDirectory(prefix="innodb-") as folder:
        here = Server(asked, Path(folder))
        try:
            here.create()
            if not mariadb and "MariaDB" in here.version():
                raise OSError(f"{asked.server} is MariaDB: name a mysqld (--server)")
            seen = check(here, asked)
        finally:
            here.kill()
    print("SEEN" if seen else "NOT SEEN")
    return 0 if seen else 1


def run(check):
    """Exit with 0 if check() saw the finding, 1 if it did not, 2 if it cannot run."""
    server.run(lambda: main(check))
