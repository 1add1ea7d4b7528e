"""Reads the lines of a server's log, and looks them up in a table.

A line's form shows its product: MySQL's have a code (MY-010116) or are JSON objects
with err_code (MySQL Reference Manual 9.7, 7.4.2 The Error Log), PostgreSQL's have a
severity with a colon and two spaces, or are its csvlog or jsonlog (PostgreSQL 15
documentation, 20.8), MariaDB's have a severity in brackets and no code.

A line may hold text that a client chose: in PostgreSQL's log_line_prefix (%a, %u, %d),
in a message, or in a statement of several lines.  A line that has the forms of two
messages is not used, since it is not known which of them the server wrote.
"""

from __future__ import annotations

import contextlib
import enum
import json
import math
import re
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from dbcheck.server_log import Product


class Shows(enum.Enum):
    """The meaning of a line.

    How a start went:
    BEGINS:   a server begins to start; a line that STARTS it may follow.
    STARTS:   the same, of a server that logs no line before.
    RESTARTS: PostgreSQL starts over in the same process, after a backend crashed.
    READY:    it takes queries.
    FAILS:    this start is over, or the server is.

    How the server ended before:
    CUT:      it was not shut down.
    SHUT:     a start finds that it was shut down.
    ASKED:    somebody asks it to shut down.
    STOPPED:  it has ended as it was asked to, or gave up a start.

    Why a start failed:
    DAMAGED:  what the server itself wrote and flushed is not as it wrote it.
    HOPELESS: the same, and the server says that it cannot be repaired.
    MISSING:  a file is not there that the server made; or a volume is not mounted.
    CONTENT:  what was read is not what belongs there: a reason for a line of MISSING,
              and alone as normal as the end of a log.
    OUTSIDE:  a file outside of the data directory is not there.
    INNOCENT: a port, memory, space, a permission, a setting, a key, a version.
    CRASHED:  a fault of the program ended it or one of its processes.
    ABORTED:  signal 6 ended it or one of its processes: a program raises it after an
              error that it logs, and a watchdog (systemd's
              TimeoutStartFailureMode=abort) or a person sends it.
    ASIDE:    what follows from another line, or is about a client: no cause.
    """

    BEGINS = enum.auto()
    STARTS = enum.auto()
    RESTARTS = enum.auto()
    READY = enum.auto()
    FAILS = enum.auto()
    CUT = enum.auto()
    SHUT = enum.auto()
    ASKED = enum.auto()
    STOPPED = enum.auto()
    DAMAGED = enum.auto()
    HOPELESS = enum.auto()
    MISSING = enum.auto()
    CONTENT = enum.auto()
    OUTSIDE = enum.auto()
    INNOCENT = enum.auto()
    CRASHED = enum.auto()
    ABORTED = enum.auto()
    ASIDE = enum.auto()


DAMAGE = frozenset({Shows.DAMAGED, Shows.HOPELESS, Shows.MISSING})


@dataclass(frozen=True, slots=True)
class Entry:
    """A row of a table.

    begins: what the message begins with, a regular expression without groups; after a
            line feed its DETAIL and HINT.
    source: the file of the server's source that writes it.
    code:   of MySQL's messages, as MY-010116; begins is then "" for any of that code.
    early:  only a server that starts logs it, and before the line that STARTS it.
    always: it counts whatever its severity, which may be that of a warning or a note.
    """

    begins: str
    shows: Shows
    source: str
    code: str = ""
    early: bool = False
    always: bool = False


def make_rows(
    shows: Shows,
    source: str,
    *begins: str,
    early: bool = False,
    always: bool = False,
) -> tuple[Entry, ...]:
    """Return the rows of several messages of one source that show the same."""
    return tuple(
        Entry(each, shows, source, early=early, always=always) for each in begins
    )


class Table:
    """The rows of a product, of which the first that fits a message counts."""

    def __init__(self, *groups: Sequence[Entry]) -> None:
        """groups: the rows, in the order in which they are tried."""
        self.entries = tuple(entry for group in groups for entry in group)
        by_code: dict[str, list[Entry]] = {}
        for entry in self.entries:
            by_code.setdefault(entry.code, []).append(entry)
        self._finders = {code: _make_finder(found) for code, found in by_code.items()}

    def find(self, message: str, code: str = "") -> Entry | None:
        """Return the row of a message, None if the table has none."""
        for each in (code, "") if code else ("",):
            finder = self._finders.get(each)
            if finder and (entry := finder(message)):
                return entry
        return None


def _make_finder(entries: Sequence[Entry]) -> Callable[[str], Entry | None]:
    begins = re.compile("|".join(f"({entry.begins})" for entry in entries), re.DOTALL)

    def find(message: str) -> Entry | None:
        found = begins.match(message)
        return entries[found.lastindex - 1] if found and found.lastindex else None

    return find


@dataclass(frozen=True, slots=True)
class Line:
    """A message of a log.

    raw:      its lines as they stand.
    severity: as the server writes it, in capitals.
    code:     of MySQL's, as MY-010116; else "".
    message:  with its DETAIL and HINT after line feeds, if PostgreSQL adds any.
    entry:    the row of the product's table; None if it has none.
    shown:    what a report quotes: from the severity on.
    """

    raw: str
    product: Product
    severity: str
    code: str
    message: str
    shown: str
    entry: Entry | None = None

    @property
    def shows(self) -> Shows | None:
        """Return the meaning, None if it is not known."""
        return self.entry.shows if self.entry else None

    @property
    def is_error(self) -> bool:
        """True if it may be why a start failed.

        A statement of PostgreSQL's fails with ERROR; FATAL and PANIC end a process.
        """
        if self.entry is not None:
            if self.shows in _NO_CAUSE:
                return False
            if self.shows in _ENDED or self.entry.early or self.entry.always:
                return True
        return self.is_severe

    @property
    def is_severe(self) -> bool:
        """True if the server gives it a severity that may end a start."""
        least = _ENDS if self.product is Product.POSTGRESQL else _ERRORS
        return self.severity in least


_NO_CAUSE = frozenset(
    {
        *(Shows.BEGINS, Shows.STARTS, Shows.RESTARTS, Shows.READY, Shows.FAILS),
        *(Shows.CUT, Shows.SHUT, Shows.ASKED, Shows.STOPPED, Shows.ASIDE),
    }
)
_ENDED = frozenset({Shows.CRASHED, Shows.ABORTED})
_ENDS = frozenset({"FATAL", "PANIC"})
_ERRORS = _ENDS | {"ERROR"}
_COMPLAINS = _ERRORS | {"WARNING"}


def is_complaint(line: Line) -> bool:
    """Return True if the server itself calls *line* at least a warning."""
    return line.severity in _COMPLAINS


_MYSQL = re.compile(r"(?:\[(\w+)\] )?\[(MY-[0-9]{6})\] \[\w+\] ?(.*)")
_FATAL = ("[FATAL]", "[ERROR] [FATAL]")
_MARIADB = re.compile(r"\[(ERROR|Warning|Note|FATAL)\] (?:\[FATAL\] )?(.*)")
_POSTGRESQL = re.compile(
    r"\b(PANIC|FATAL|ERROR|WARNING|NOTICE|INFO|LOG|DEBUG[1-5]?|DETAIL|HINT|CONTEXT|"
    r"STATEMENT|QUERY|LOCATION|BACKTRACE):  (.*)"
)
# A further line of a message or statement begins with a tab (elog.c, append_with_tabs);
# in syslog a tab may be #011, and each message's parts have numbers (write_syslog).
_CONTINUES = re.compile(r"(?:\[\d+-\d+\] ?)?(?:\t|#011)|\[\d+-(?!1\])\d+\]")
# A record of csvlog up to its message: a time, ten columns, severity and SQLSTATE
# (csvlog.c, write_csvlog; PostgreSQL 15 documentation, 20.8.4).  It may go on in
# further lines, within quotes.  What a client chose has each quote twice there
# (appendCSVLiteral), so none of its lines has one quote, or three, before a message.
_CSV_FIELD = r"(?:\"(?:[^\"]|\"\")*\"|[^,\"]*),"
_CSV_RECORD = re.compile(
    r"\d{4}-\d\d-\d\d [\d:.]{8,15} [^\s,\"]{1,20},"
    rf"(?:{_CSV_FIELD}){{10}}([^\s,\"]{{3,20}}),[0-9A-Z]{{5}},(?=\"(?:\"\")*(?!\"))"
)
_CSV_MESSAGE = re.compile(
    r"\"((?:[^\"]|\"\"){0,4096})\"(?:,(?:\"((?:[^\"]|\"\"){0,4096})\")?)?"
)
# Written without a severity, by the thread that dies (MariaDB 10.11 ut0dbg.cc and
# signal_handler.cc; MySQL 9.7 ut0dbg.cc and signal_handler.cc).
_DYING = re.compile(
    r"[-+.:0-9TZUCa-fx ]{0,80}(?:\[(?:ERROR|FATAL|InnoDB|Server|MY-[0-9]{6})\] ){0,4}"
    r"(?:/\S{0,200}/)?"
    r"((?:InnoDB: )?Assertion failure\b.*|"
    r"(?:mysqld|mariadbd) got (?:signal|exception).*)"
)
# What PostgreSQL writes before it can log has its program's name and no severity
# (postmaster.c, checkControlFile; guc.c, SelectConfigFiles).
_UNLOGGED = re.compile(r"post(?:gres|master): (.*)")
# What journalctl(1) and syslog write before a message: time, host, program and process
# (systemd.journal-fields(7); RFC 3164, 4.1; RFC 3339 for the time of newer forms).
_BEFORE = re.compile(
    r"(?:[A-Z][a-z]{2} [ 0-9][0-9] |[0-9]{4}-[0-9]{2}-[0-9]{2}T)[-+:.0-9Z]{8,24} "
    r"[^\s\[]{1,255} [^\s\[:]{1,255}\[[0-9]+\]: "
)
_LACKING = ("Expected to find it in the directory", "but could not open file")
_NAMED = re.compile(r"(?:InnoDB: |(?:/\S{0,200}/)?(?:mysqld|mariadbd)(?:-\w+)?: )")
_ADDED = frozenset({"DETAIL", "HINT"})
_NO_MESSAGE = frozenset(
    {"CONTEXT", "STATEMENT", "QUERY", "LOCATION", "BACKTRACE", *_ADDED}
)


def read_lines(text: str) -> list[Line]:
    """Return the messages of a log, without what the tables say of them.

    A server that logs in several forms at once writes each in a file of its own, and
    most lines twice: they are put in the order of their times, each once.  A form may
    have no fractions of a second, or no times (PostgreSQL's log_line_prefix): then a
    line counts as the same up to a second later, or whenever it was logged.
    """
    lines = [(_find_form(line), line) for line in _parse_lines(text)]
    forms = sorted({form for form, _ in lines}, reverse=True)
    if len(forms) < 2:
        return [line for _, line in lines]
    found = [_TIME.search(line.raw) for _, line in lines]
    times = [each and _parse_time_s(each[0]) for each in found]
    whole = any(each and "." not in each[0] for each in found)
    timed = {form for (form, _), at in zip(lines, times, strict=True) if at is not None}
    apart_s = math.inf if len(timed) < len(forms) else 1.0 if whole else 0.0
    last = dict.fromkeys(forms, 0.0)
    placed: list[tuple[float, str, Line]] = []
    for (form, line), at in zip(lines, times, strict=True):
        if at is not None:
            last[form] = float(int(at)) if whole else at
        placed.append((last[form], form, line))
    # Text is the first of a moment: only that has what a server logs as it begins.
    placed.sort(key=lambda each: (each[0], forms.index(each[1])))
    return list(_drop_repeated_forms(placed, forms, apart_s))


def _drop_repeated_forms(
    placed: Iterable[tuple[float, str, Line]], forms: Sequence[str], apart_s: float
) -> Iterator[Line]:
    """Return each line of several forms once, of those at most *apart_s* apart."""
    # When the lines of another form came that this form is to repeat.
    due: dict[tuple[str, str, str], deque[float]] = defaultdict(deque)
    for at, form, line in placed:
        begins = line.message.partition("\n")[0]
        awaited = due[form, line.code, begins]
        while awaited and at - awaited[0] > apart_s:
            awaited.popleft()
        if awaited:
            awaited.popleft()
            continue
        for other in forms:
            if other != form:
                due[other, line.code, begins].append(at)
        yield line


_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}[ T] ?[0-9]{1,2}:[0-9]{2}:[0-9.]{2,9}")


def _parse_time_s(time: str) -> float | None:
    """Return a time of a log in seconds, None if it is none."""
    try:
        at = datetime.fromisoformat(time.replace("  ", " 0"))
    except ValueError:
        return None
    return at.replace(tzinfo=UTC).timestamp()


def _find_form(line: Line) -> str:
    if line.raw.startswith("{"):
        return "json"
    return "csv" if _CSV_RECORD.match(line.raw) else "text"


def _parse_lines(text: str) -> Iterator[Line]:
    last: Line | None = None
    for raw in _drop_quoted_lines(map(_strip_prefix_of_journal, text.split("\n"))):
        line = parse_line(raw)
        added = line.severity in _ADDED if line else raw.startswith(_LACKING)
        if added and last is not None:
            more = line.message if line else raw
            last = replace(
                last, message=f"{last.message}\n{more}", raw=f"{last.raw}\n{raw}"
            )
            continue
        if line is None or line.severity in _NO_MESSAGE:
            continue
        if last is not None:
            yield last
        last = line
    if last is not None:
        yield last


def _drop_quoted_lines(raws: Iterable[str]) -> Iterator[str]:
    """Yield lines without those within the quotes of a record of csvlog."""
    quoted = False
    for raw in raws:
        ends = raw.count('"') % 2 == 1
        if _CSV_RECORD.match(raw):
            quoted = ends
        elif quoted:
            quoted = not ends
            continue
        yield raw


def _strip_prefix_of_journal(raw: str) -> str:
    """Return the server's own part of a line that the journal or syslog keeps."""
    if raw.startswith('{"') and '"MESSAGE"' in raw:  # journalctl --output=json
        with contextlib.suppress(ValueError, RecursionError):
            found = json.loads(raw)
            if isinstance(said := found.get("MESSAGE"), str):
                return said
    return _BEFORE.sub("", raw, count=1) if _BEFORE.match(raw) else raw


def parse_line(raw: str) -> Line | None:
    """Return the message that a line of a log begins, None if it begins none."""
    if raw.startswith("{"):
        return _parse_json_line(raw)
    if _CONTINUES.match(raw):
        return None
    text = _POSTGRESQL.search(raw)
    found = [
        _parse_mysql_line(raw),
        _parse_csv_line(raw),
        _parse_unlogged_line(raw),
        text and _parse_text_line(raw, text),
    ]
    lines = [line for line in found if line is not None]
    if len(lines) > 1 or (text and _POSTGRESQL.search(text[2])):
        return Line(raw, lines[0].product, "", "", "", raw.strip())
    return lines[0] if lines else None


def _parse_mysql_line(raw: str) -> Line | None:
    """Return a line of MySQL's or MariaDB's; only their messages hold others' text."""
    if found := _DYING.match(raw):
        of = Product.MYSQL if "[MY-" in raw else Product.MARIADB
        message = _NAMED.sub("", found[1], count=1)
        return Line(raw, of, "ERROR", "", message, _shorten_line(raw, found[1]))
    mysql, mariadb = _MYSQL.search(raw), _MARIADB.search(raw)
    if mysql and not (mariadb and mariadb.start() < mysql.start()):
        severity, shown = (mysql[1] or "").upper(), mysql[0].strip()
        return Line(raw, Product.MYSQL, severity, mysql[2], mysql[3], shown)
    if mariadb:
        severity = "FATAL" if mariadb[0].startswith(_FATAL) else mariadb[1].upper()
        message = _NAMED.sub("", mariadb[2], count=1)
        return Line(raw, Product.MARIADB, severity, "", message, mariadb[0].strip())
    return None


def _parse_csv_line(raw: str) -> Line | None:
    record = _CSV_RECORD.match(raw)
    if not (record and (found := _CSV_MESSAGE.match(raw, record.end()))):
        return None
    message = "\n".join(filter(None, found.groups())).replace('""', '"')
    shown = f"{record[1]}:  {message.split(chr(10))[0]}"
    return Line(raw, Product.POSTGRESQL, record[1], "", message, shown)


def _parse_unlogged_line(raw: str) -> Line | None:
    if not (found := _UNLOGGED.match(raw)):
        return None
    return Line(raw, Product.POSTGRESQL, "FATAL", "", found[1], found[0])


def _parse_text_line(raw: str, found: re.Match[str]) -> Line:
    message, shown = found[2].strip(), found[0].strip()
    return Line(raw, Product.POSTGRESQL, found[1], "", message, shown)


def _parse_json_line(raw: str) -> Line | None:
    """Return a line of MySQL's log_sink_json, or of PostgreSQL's jsonlog."""
    try:
        found = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, Mapping):
        return None
    if "err_code" in found:
        severity, message = str(found.get("label", "")), str(found.get("msg", ""))
        code = f"MY-{found['err_code']:0>6}"
        subsystem = found.get("subsystem", "Server")
        shown = f"[{severity}] [{code}] [{subsystem}] {message}"
        return Line(raw, Product.MYSQL, severity.upper(), code, message, shown)
    if "error_severity" in found:
        severity, message = str(found["error_severity"]), str(found.get("message", ""))
        added = [str(found[each]) for each in ("detail", "hint") if each in found]
        whole = "\n".join([message, *added])
        shown = f"{severity}:  {message}"
        return Line(raw, Product.POSTGRESQL, severity, "", whole, shown)
    return None


def _shorten_line(raw: str, message: str) -> str:
    found = _MYSQL.search(raw) or _MARIADB.search(raw)
    return found[0].strip() if found else message
