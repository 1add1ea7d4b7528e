"""The findings, one function each.

Every state that is made here is one that a power loss can leave: the log is flushed,
copies of pages in the doublewrite file are flushed and whole, one page that was being
written in place is torn, or several of one batch, and the last checkpoint is the one
before that write.
"""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from dbcheck.error_ids import ErrorId
from dbcheck.errors import LabError
from dbcheck.lab.machine import SERVERS
from dbcheck.lab.servers.base import DatabaseServer
from tests.findings.innodb_pages import (
    INDEX,
    PAGE_BYTES,
    SECTOR_BYTES,
    History,
    Page,
    overwrite,
    pages,
    tear,
)
from tests.kit.lab_access import connect
from tests.kit.servers import server_in
from tests.kit.waiting import wait_until

_TRIES = 8
_ROW = 1000  # bytes
_HEADS = {"mysql": 2048, "mariadb": 12288}  # of a log file: up to its checkpoints


class Unseen(Exception):
    """The server did what it should."""


class Bench:
    """A server on a plain folder, with a table t that is written out on demand."""

    def __init__(self, server: DatabaseServer) -> None:
        self.server = server
        self.table_file = server.data / "dbcheck/t.ibd"
        self._heads = server.run / "heads"
        self._kept = server.run / "kept"

    def sql(self, *statements: str) -> list[Any]:
        """Run statements; return the rows of the last one."""
        connection = connect(self.server.url, self.server.password)
        try:
            cursor = connection.cursor()
            for statement in statements:
                cursor.execute(statement)
                rows = cursor.fetchall() if cursor.with_rows else []
            return list(rows)
        finally:
            connection.close()

    def fill(self, rows: int) -> None:
        """Make the table, with *rows* rows of "a"."""
        self.sql(
            f"create table t (id int primary key, v varbinary({_ROW}) not null)",
            *(
                "insert into t values "
                + ",".join(f"({n}, repeat('a', {_ROW}))" for n in range(low, low + 50))
                for low in range(0, rows, 50)
            ),
        )

    def write_out(self) -> None:
        """Have every changed page written, with its copy, and a checkpoint made."""
        self.sql(
            "set global innodb_max_dirty_pages_pct_lwm = 0",
            "set global innodb_max_dirty_pages_pct = 0",
        )
        status = "show global status like 'Innodb_buffer_pool_pages_dirty'"
        wait_until(lambda: self.sql(status)[0][1] == "0", "all pages written")

    def hold(self) -> None:
        """Keep changed pages in memory until write_out()."""
        self.sql(
            "set global innodb_max_dirty_pages_pct = 99",
            "set global innodb_max_dirty_pages_pct_lwm = 0",
        )

    def keep_checkpoint(self) -> None:
        """Remember the checkpoint of now, the last one that reached the drive."""
        shutil.rmtree(self._heads, ignore_errors=True)
        self._heads.mkdir()
        for file in self._logs():
            with file.open("rb") as log:
                head = log.read(_HEADS[self.server.name])
            (self._heads / file.name).write_bytes(head)

    def lose_power(self) -> None:
        """Kill the server; the checkpoints since keep_checkpoint() were not written."""
        self.server.kill()
        for file in self._logs():
            kept = self._heads / file.name
            if kept.exists():
                with file.open("r+b") as log:
                    log.write(kept.read_bytes())

    def _logs(self) -> list[Path]:
        found = [*self.server.data.glob("#innodb_redo/#ib_redo*")]
        found += self.server.data.glob("ib_logfile0")
        return [file for file in found if not file.name.endswith("_tmp")]

    def copies(self) -> list[Page]:
        """Return the whole copies in the doublewrite files, in the server's order."""
        if self.server.name == "mariadb":
            found = pages(self.server.data / "ibdata1", range(64, 192))
            return [page for page in found if page.whole()]
        files = sorted(self.server.data.glob("#ib_16384_*.dblwr"))
        return [page for file in files for page in pages(file) if page.whole()]

    def start(self) -> str:
        """Start the server again; return "", or the log's lines that say why not."""
        before = self.server.log_file.stat().st_size
        try:
            self.server.start()
        except LabError:
            text = self.server.log_file.read_bytes()[before:].decode(errors="replace")
            return next(
                (line for line in text.splitlines() if "orrupt" in line), "no reason"
            )
        return ""

    def history(self) -> int:
        """Return how many transactions the purge has not dealt with."""
        status = str(self.sql("show engine innodb status")[0][2])
        line = next(line for line in status.splitlines() if "History list" in line)
        return int(line.split()[-1])

    def keep_data(self) -> None:
        """Remember all files; the server must not run."""
        shutil.rmtree(self._kept, ignore_errors=True)
        _copy(self.server.data, self._kept)

    def put_data_back(self) -> None:
        """Kill the server and put back what keep_data() remembered."""
        self.server.kill()
        shutil.rmtree(self.server.data)
        _copy(self._kept, self.server.data)

    def letters(self) -> dict[str, int]:
        """Return how many rows have each letter."""
        rows = self.sql("select left(v, 1), count(*) from t group by 1")
        return {
            letter if isinstance(letter, str) else bytes(letter).decode(): int(count)
            for letter, count in rows
        }


@contextlib.contextmanager
def bench(engine: str, settings: Mapping[str, str] | None = None) -> Iterator[Bench]:
    """Give a running server, and remove it."""
    small = {"innodb_buffer_pool_size": "8M", **(settings or {})}
    with tempfile.TemporaryDirectory(prefix="dbcheck-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        server = server_in(folder, SERVERS[engine], settings=small)
        try:
            server.initialise()
            server.start()
            yield Bench(server)
        finally:
            server.kill()


def _copy(source: Path, target: Path) -> None:
    """Copy a folder, owners included."""
    subprocess.run(["cp", "-a", str(source), str(target)], check=True)


def _copies_of(found: list[Page], page: Page) -> list[Page]:
    return [
        copy for copy in found if (copy.space, copy.number) == (page.space, page.number)
    ]


def mysql_older_copy() -> str:
    """MySQL restores a torn page from an older copy; old commits are gone."""
    for _ in range(_TRIES):
        with bench("mysql") as here:
            here.fill(250)
            here.write_out()
            here.sql(f"update t set v = repeat('b', {_ROW})")
            here.write_out()
            wait_until(lambda: _checkpointed(here), "a checkpoint")
            here.keep_checkpoint()
            here.hold()
            here.sql(f"update t set v = repeat('c', {_ROW}) where id % 2 = 0")
            here.write_out()
            here.lose_power()
            torn = _older_first(here)
            if torn is None:
                continue
            page, copies = torn
            tear(here.table_file, page.number)
            if why := here.start():
                raise Unseen(why)
            found = here.letters()
            checked = here.sql("check table t")[-1][-1]
            if found == {"b": 125, "c": 125}:
                raise Unseen(f"the newest copy of page {page.number} was taken")
            return (
                f"page {page.number} of t.ibd, LSN {page.lsn}, has whole copies of LSN "
                f"{', '.join(str(copy.lsn) for copy in copies)}; after recovery the "
                f"rows are {found}, not 125 b and 125 c; CHECK TABLE: {checked}"
            )
    raise Unseen(f"in {_TRIES} tries no page had an older copy")


def _checkpointed(here: Bench) -> bool:
    query = (
        "select variable_value from performance_schema.global_status where "
        "variable_name in ('Innodb_redo_log_checkpoint_lsn', "
        "'Innodb_redo_log_flushed_to_disk_lsn')"
    )
    values = {int(row[0]) for row in here.sql(query)}
    return max(values) - min(values) < 4096


def _older_first(here: Bench) -> tuple[Page, list[Page]] | None:
    """Return a page of rows and its whole copies; the first has none but rows of "a".

    Which slots a batch takes is chance: where the newest copy lies in a slot before,
    the two are exchanged.
    """
    found = here.copies()
    for page in pages(here.table_file):
        if page.kind != INDEX or page.number <= 4:
            continue
        copies = _copies_of(found, page)
        old = [copy for copy in copies if not _updated(copy)]
        new = [copy for copy in copies if copy.lsn == page.lsn]
        if old and new:
            first, last = sorted((old[0], new[0]), key=copies.index)
            overwrite(first.file, first.slot, old[0].content)
            overwrite(last.file, last.slot, new[0].content)
            return page, _copies_of(here.copies(), page)
    return None


def _updated(page: Page) -> bool:
    """Tell whether a page has rows of "b" or "c".

    Not whether it has none of "a": a page that was split still has the bytes of the
    rows that it gave away.
    """
    return any(letter * (_ROW // 2) in page.content for letter in (b"b", b"c"))


def mysql_torn_copy() -> str:
    """MySQL ends itself at a torn copy, though a whole one is there."""
    for second in (False, True):
        with bench("mysql") as here:
            here.fill(250)
            here.keep_checkpoint()
            here.write_out()
            here.lose_power()
            found = here.copies()
            page, whole = _with_a_slot_before(here, found)
            tear(here.table_file, page.number)
            first = sorted(here.server.data.glob("#ib_16384_*.dblwr"))[0]
            if second:  # its first sector is of this page, the others are of another
                overwrite(first, 0, page.content[:512])
            why = here.start()
            if not second and why:
                raise LabError(
                    f"the control did not recover: {why}", id=ErrorId.LAB_DAEMON_FAILED
                )
            if second and not why:
                raise Unseen("the server started")
    return (
        f"page {page.number} is whole in {whole.file.name} slot {whole.slot}, torn in "
        f"{first.name} slot 0: {why.strip()[:120]} ... the server does not start"
    )


def _with_a_slot_before(here: Bench, found: list[Page]) -> tuple[Page, Page]:
    """Return a page of rows and its copy, which lies behind the very first slot."""
    first = sorted(here.server.data.glob("#ib_16384_*.dblwr"))[0]
    for page in pages(here.table_file):
        copies = _copies_of(found, page)
        if page.kind == INDEX and page.number > 4 and len(copies) == 1:
            copy = copies[0]
            if copy.lsn == page.lsn and (copy.file, copy.slot) != (first, 0):
                return page, copy
    raise Unseen("no page has a copy")


_HEADERS = range(4, 132)  # of an undo file: its rollback segments' header pages
_SEGMENTS = 256  # which transactions take in turn


def mysql_undo() -> str:
    """MySQL restores a rollback segment from an older copy, and never starts again."""
    for _ in range(_TRIES):
        with bench("mysql", {"innodb_purge_rseg_truncate_frequency": "1"}) as here:
            state = _two_histories(here)
            if state is None:
                continue
            page, copies = state
            older, newest = copies[0], copies[-1]
            tear(page.file, page.number)
            here.keep_data()
            overwrite(older.file, older.slot, bytes(PAGE_BYTES))
            if why := here.start():
                raise LabError(
                    f"the control did not recover: {why}", id=ErrorId.LAB_DAEMON_FAILED
                )
            here.put_data_back()
            rest = newest.content[SECTOR_BYTES:]
            overwrite(older.file, older.slot, rest, at=SECTOR_BYTES)
            if not (torn := here.start()):
                raise Unseen("the server started beside a torn copy")
            here.put_data_back()
            if not here.start() or not here.start():
                raise Unseen("the server started")
            log = here.server.log_file.read_text(errors="replace")
            end = next(line for line in log.splitlines() if "outside the tab" in line)
            after = History.of(next(pages(page.file, range(page.slot, page.slot + 1))))
            return (
                f"page {page.number} of {page.file.name}, LSN {page.lsn}, history "
                f"{History.of(page)}, torn; its copy of LSN {newest.lsn} is whole.  "
                "Nothing else: the server starts.  A torn copy in a slot before: "
                f"{_words(torn)}... it does not start.  Instead of that a "
                f"whole one of LSN {older.lsn}, history {History.of(older)}: the page "
                f"becomes {after}, and the server ends itself in every start: "
                f"{_words(end)}..."
            )
    raise Unseen(f"in {_TRIES} tries no empty history came first")


def _words(line: str) -> str:
    """Return the beginning of what a line of the log says."""
    return line.partition("[InnoDB] ")[2][:100]


def _two_histories(here: Bench) -> tuple[Page, list[Page]] | None:
    """Return the page of a rollback segment and two whole copies of it.

    The one in the first slot is of before the checkpoint, when its history was empty;
    the other is as new as the page.  Which slots a batch takes is chance, and so is
    which copies outlive it: the first slot is given the older one.
    """
    update = f"update t set v = repeat('b', {_ROW}) where id ="
    work = [f"{update} {n % 50}" for n in range(_SEGMENTS)]
    here.fill(50)
    here.sql(*work)
    wait_until(lambda: here.history() == 0, "all purged")
    here.write_out()
    before = here.copies()
    reader = connect(here.server.url, here.server.password)
    try:
        # As long as it reads, nothing is purged.
        reader.cursor().execute("start transaction with consistent snapshot")
        here.sql(*(one.replace("'b'", "'c'") for one in work))
        here.write_out()
        wait_until(lambda: _checkpointed(here), "a checkpoint")
        here.keep_checkpoint()
        here.hold()
        here.sql(*work)
        here.write_out()
        here.lose_power()
    finally:
        with contextlib.suppress(Exception):
            reader.close()
    first = sorted(here.server.data.glob("#ib_16384_*.dblwr"))[0]
    found = here.copies()
    for file in sorted(here.server.data.glob("undo_0*")):
        for page in pages(file, _HEADERS):
            empty = [c for c in _copies_of(before, page) if not History.of(c).count]
            new = [c for c in _copies_of(found, page) if c.lsn == page.lsn]
            if empty and new and new[0].slot and History.of(page).count > 1:
                overwrite(first, 0, empty[0].content)
                return page, [next(pages(first, range(1))), new[0]]
    return None


_TRX_SYS = 5  # FSP_TRX_SYS_PAGE_NO


def mysql_trx_sys() -> str:
    """MySQL reads page 5 of the system tablespace before it restores torn pages."""
    with bench("mysql") as here:
        here.fill(50)
        here.keep_checkpoint()
        here.write_out()
        here.lose_power()
        system = here.server.data / "ibdata1"
        page = next(pages(system, range(_TRX_SYS, _TRX_SYS + 1)))
        copies = [copy.lsn for copy in _copies_of(here.copies(), page)]
        if page.lsn not in copies:
            raise Unseen("page 5 was not written")
        tear(system, _TRX_SYS)
        why = here.start()
        if not why:
            raise Unseen("the server started")
        return f"page 5 of LSN {page.lsn} has a whole copy: {why.strip()[:150]}"


_NO_SPACE = "Cannot determine the space ID"


def mysql_small_table() -> str:
    """MySQL does not start if all pages of a small table are torn by one cut."""
    why = ""
    for whole in (1, 0):  # with the last one whole all are restored: the control
        with bench("mysql") as here:
            here.fill(50)
            here.keep_checkpoint()
            here.write_out()
            here.lose_power()
            found = here.copies()
            written = [page for page in pages(here.table_file) if page.whole()]
            for page in written:
                if page.lsn not in [copy.lsn for copy in _copies_of(found, page)]:
                    raise Unseen(f"page {page.number} of the table was not written")
            for page in written[: len(written) - whole]:
                tear(here.table_file, page.number)
            why = here.start()
            if whole and (why or here.letters() != {"a": 50}):
                raise LabError(
                    f"the control did not recover: {why or 'rows are gone'}",
                    id=ErrorId.LAB_DAEMON_FAILED,
                )
            if not whole:
                why = why and here.start()  # it is tried once more
    if not why:
        raise Unseen("the server started")
    if _NO_SPACE not in why:
        raise LabError(
            f"the server did not start for another reason: {why}",
            id=ErrorId.LAB_DAEMON_FAILED,
        )
    return (
        f"the {len(written)} pages of t.ibd have whole copies: {_words(why)} It does"
        " not start; with one page whole it does"
    )


def mariadb_first_page() -> str:
    """MariaDB does not restore the torn first page of a table that has not grown."""
    said = ""
    for rows in (2000, 20):  # a table that grew is restored: the control
        with bench("mariadb") as here:
            here.fill(800)
            here.write_out()
            here.hold()
            here.keep_checkpoint()
            here.sql(
                "insert into t values "
                + ",".join(f"({1000 + n}, repeat('b', {_ROW}))" for n in range(rows))
            )
            here.write_out()
            here.lose_power()
            page = next(pages(here.table_file))
            copies = [copy.lsn for copy in _copies_of(here.copies(), page)]
            if page.lsn not in copies:
                raise Unseen("the first page was not written")
            tear(here.table_file, 0)
            here.start()
            try:
                found = here.letters()
            except Exception as error:
                said = f"{error}"
            if rows == 20 and not said:
                raise Unseen(f"the rows are {found}")
            if rows != 20 and said:
                raise LabError(
                    f"the control did not recover: {said}", id=ErrorId.LAB_DAEMON_FAILED
                )
    return f"page 0 of LSN {page.lsn} has a whole copy; {said}"


CASES: dict[str, Callable[[], str]] = {
    "mysql-older-copy": mysql_older_copy,
    "mysql-torn-copy": mysql_torn_copy,
    "mysql-undo": mysql_undo,
    "mysql-trx-sys": mysql_trx_sys,
    "mysql-small-table": mysql_small_table,
    "mariadb-first-page": mariadb_first_page,
}
