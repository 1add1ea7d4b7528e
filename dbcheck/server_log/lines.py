"""Reads the lines of a server's log, and looks them up in a table.

A line's form shows its product: MySQL's have a code (MY-010116) or are JSON objects
with err_code (MySQL Reference Manual 9.7, 7.4.2 The Error Log), PostgreSQL's have a
severity with a colon and two spaces, or have the form of its csvlog or jsonlog
(PostgreSQL 15 documentation, 20.8), MariaDB's have a severity in brackets and no code.

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
    READY:    the server takes queries.
    FAILS:    this start has ended, or the server has.

    How the server ended before:
    CUT:      the server was not shut down.
    SHUT:     a start finds that the server was shut down.
    ASKED:    somebody asks the server to shut down.
    STOPPED:  the server has ended as it was asked to, or gave up a start.

    Why a start failed:
    DAMAGED:  what the server itself wrote and flushed is not as it wrote it.
    HOPELESS: as DAMAGED, and the server says that it cannot be repaired.
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

    begins: what the message begins with, a regular expression without groups; a line
            feed parts the message from its DETAIL and HINT.
    source: the file of the server's source that writes it.
    code: of MySQL's messages, as MY-010116; begins is then "" for any message of that
          code.
    early:  only a server that starts logs it, and before the line that STARTS it.
    always: it counts with any severity, also with that of a warning or a note.
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
    """Return the rows of messages of one source that all show *shows*."""
    return tuple(
        Entry(message, shows, source, early=early, always=always) for message in begins
    )


class Table:
    """The rows of a product, of which the first that fits a message counts."""

    def __init__(self, *groups: Sequence[Entry]) -> None:
        """groups: the rows, in the order in which they are tried."""
        self.entries = tuple(entry for group in groups for entry in group)
        by_code: dict[str, list[Entry]] = {}
        for entry in self.entries:
            by_code.setdefault(entry.code, []).append(entry)
        self._finders = {
            code: _make_finder(entries) for code, entries in by_code.items()
        }

    def find(self, message: str, code: str = "") -> Entry | None:
        """Return the row of a message, None if the table has none."""
        for code_of_rows in (code, "") if code else ("",):
            finder = self._finders.get(code_of_rows)
            if finder and (entry := finder(message)):
                return entry
        return None


def _make_finder(entries: Sequence[Entry]) -> Callable[[str], Entry | None]:
    begins = re.compile("|".join(f"({entry.begins})" for entry in entries), re.DOTALL)

    def find(message: str) -> Entry | None:
        match = begins.match(message)
        return entries[match.lastindex - 1] if match and match.lastindex else None

    return find


@dataclass(frozen=True, slots=True)
class Line:
    """A message of a log.

    raw:      its lines as they stand.
    severity: as the server writes it, but in capitals.
    code:     of a message of MySQL, as MY-010116; else "".
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
        """True if the line may be why a start failed.

        A statement of PostgreSQL's fails with ERROR; FATAL and PANIC end a process.
        """
        if self.entry is not None:
            if self.shows in _NO_CAUSE:
                return False
            if self.shows in _PROCESS_ENDED or self.entry.early or self.entry.always:
                return True
        return self.is_severe

    @property
    def is_severe(self) -> bool:
        """True if the line has a severity with which a start may end."""
        severities = (
            _SEVERITIES_OF_END
            if self.product is Product.POSTGRESQL
            else _SEVERITIES_OF_ERROR
        )
        return self.severity in severities


_NO_CAUSE = frozenset(
    {
        *(Shows.BEGINS, Shows.STARTS, Shows.RESTARTS, Shows.READY, Shows.FAILS),
        *(Shows.CUT, Shows.SHUT, Shows.ASKED, Shows.STOPPED, Shows.ASIDE),
    }
)
_PROCESS_ENDED = frozenset({Shows.CRASHED, Shows.ABORTED})
_SEVERITIES_OF_END = frozenset({"FATAL", "PANIC"})
_SEVERITIES_OF_ERROR = _SEVERITIES_OF_END | {"ERROR"}
_SEVERITIES_OF_COMPLAINT = _SEVERITIES_OF_ERROR | {"WARNING"}


def is_complaint(line: Line) -> bool:
    """Return True if the server itself calls *line* at least a warning."""
    return line.severity in _SEVERITIES_OF_COMPLAINT


_MYSQL = re.compile(r"(?:\[(\w+)\] )?\[(MY-[0-9]{6})\] \[\w+\] ?(.*)")
_MARIADB_FATAL = ("[FATAL]", "[ERROR] [FATAL]")
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
# further lines, within quotes.  An odd number of quotes begins a message, as one does
# in `,00000,"text"`.  In text that a client chose each quote is doubled
# (appendCSVLiteral), so these words are `,00000,""text""` there, which is no record.
# Where such text ends with `,00000,`, its own closing quote follows, and then the
# commas of the columns after it, with which no message begins.
_CSV_FIELD = r"(?:\"(?:[^\"]|\"\")*\"|[^,\"]*),"
_CSV_RECORD = re.compile(
    r"\d{4}-\d\d-\d\d [\d:.]{8,15} [^\s,\"]{1,20},"
    rf"(?:{_CSV_FIELD}){{10}}([^\s,\"]{{3,20}}),[0-9A-Z]{{5}},"
    r"(?=\"(?:\"\")*(?!\"))(?!\"(?:\"\")*,+(?:\"|$))"
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
_BEFORE_LOGGING = re.compile(r"post(?:gres|master): (.*)")
# What journalctl(1) and syslog write before a message: time, host, program and process
# (systemd.journal-fields(7); RFC 3164, 4.1; RFC 3339 for the time of newer forms).
_JOURNAL_PREFIX = re.compile(
    r"(?:[A-Z][a-z]{2} [ 0-9][0-9] |[0-9]{4}-[0-9]{2}-[0-9]{2}T)[-+:.0-9Z]{8,24} "
    r"[^\s\[]{1,255} [^\s\[:]{1,255}\[[0-9]+\]: "
)
_UNMARKED_DETAILS = ("Expected to find it in the directory", "but could not open file")
_MESSAGE_ORIGIN = re.compile(
    r"(?:InnoDB: |(?:/\S{0,200}/)?(?:mysqld|mariadbd)(?:-\w+)?: )"
)
_MESSAGE_PARTS = frozenset({"DETAIL", "HINT"})
_NO_MESSAGE = frozenset(
    {"CONTEXT", "STATEMENT", "QUERY", "LOCATION", "BACKTRACE", *_MESSAGE_PARTS}
)


def read_lines(text: str) -> list[Line]:
    """Return the messages of a log, without what the tables say of them.

    A server that logs in several forms at once writes each form to a file of its own,
    and most lines in each form: the lines are put in the order of their times, each
    once.  A form may have no fractions of a second, or no times (PostgreSQL's
    log_line_prefix): then equal lines count as one up to a second apart, or always.
    """
    lines = [(_find_form(line), line) for line in _parse_lines(text)]
    forms = sorted({form for form, _ in lines}, reverse=True)
    if len(forms) < 2:
        return [line for _, line in lines]
    time_matches = [_TIME.search(line.raw) for _, line in lines]
    times = [each and _parse_time_s(each[0]) for each in time_matches]
    in_seconds = any(each and "." not in each[0] for each in time_matches)
    timed = {form for (form, _), at in zip(lines, times, strict=True) if at is not None}
    apart_s = math.inf if len(timed) < len(forms) else 1.0 if in_seconds else 0.0
    latest_s = dict.fromkeys(forms, 0.0)
    placed: list[tuple[float, str, Line]] = []
    for (form, line), time_s in zip(lines, times, strict=True):
        if time_s is not None:
            latest_s[form] = float(int(time_s)) if in_seconds else time_s
        placed.append((latest_s[form], form, line))
    # Of equal times the text form comes first: it alone has what a server logs first.
    placed.sort(key=lambda each: (each[0], forms.index(each[1])))
    return list(_drop_repeated_forms(placed, forms, apart_s))


def _drop_repeated_forms(
    placed: Iterable[tuple[float, str, Line]], forms: Sequence[str], apart_s: float
) -> Iterator[Line]:
    """Yield each line once; drop equal lines of other forms up to *apart_s* later."""
    # Form, code and message -> times of lines that this form has still to repeat.
    due: dict[tuple[str, str, str], deque[float]] = defaultdict(deque)
    for time_s, form, line in placed:
        first_line = line.message.partition("\n")[0]
        due_times = due[form, line.code, first_line]
        while due_times and time_s - due_times[0] > apart_s:
            due_times.popleft()
        if due_times:
            due_times.popleft()
            continue
        for other in forms:
            if other != form:
                due[other, line.code, first_line].append(time_s)
        yield line


_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}[ T] ?[0-9]{1,2}:[0-9]{2}:[0-9.]{2,9}")


def _parse_time_s(time: str) -> float | None:
    """Return a time of a log in seconds, None if *time* is no time."""
    try:
        parsed = datetime.fromisoformat(time.replace("  ", " 0"))
    except ValueError:
        return None
    return parsed.replace(tzinfo=UTC).timestamp()


def _find_form(line: Line) -> str:
    if line.raw.startswith("{"):
        return "json"
    return "csv" if _CSV_RECORD.match(line.raw) else "text"


def _parse_lines(text: str) -> Iterator[Line]:
    pending: Line | None = None
    for raw in _drop_quoted_lines(map(_strip_prefix_of_journal, text.split("\n"))):
        line = parse_line(raw)
        is_part = (
            line.severity in _MESSAGE_PARTS
            if line
            else raw.startswith(_UNMARKED_DETAILS)
        )
        if is_part and pending is not None:
            part = line.message if line else raw
            pending = replace(
                pending,
                message=f"{pending.message}\n{part}",
                raw=f"{pending.raw}\n{raw}",
            )
            continue
        if line is None or line.severity in _NO_MESSAGE:
            continue
        if pending is not None:
            yield pending
        pending = line
    if pending is not None:
        yield pending


def _drop_quoted_lines(raws: Iterable[str]) -> Iterator[str]:
    """Yield the lines that do not lie within the quotes of a record of csvlog."""
    in_quotes = False
    for raw in raws:
        flips_quotes = raw.count('"') % 2 == 1
        if _CSV_RECORD.match(raw):
            in_quotes = flips_quotes
        elif in_quotes:
            in_quotes = not flips_quotes
            continue
        yield raw


def _strip_prefix_of_journal(raw: str) -> str:
    """Return the server's own part of a line that the journal or syslog keeps."""
    if raw.startswith('{"') and _CNPG in raw:
        return _read_cnpg_line(raw)
    if raw.startswith('{"') and '"MESSAGE"' in raw:  # journalctl --output=json
        with contextlib.suppress(ValueError, RecursionError):
            entry = json.loads(raw)
            if isinstance(message := entry.get("MESSAGE"), str):
                return message
    return _JOURNAL_PREFIX.sub("", raw, count=1) if _JOURNAL_PREFIX.match(raw) else raw


# CloudNativePG's instance manager runs the server.  It logs each record of the server's
# csvlog as an object, and each line of its standard error as a text (CloudNativePG
# 1.30.0, pkg/management/postgres/logpipe/loggingCollector.go; pkg/execlog of its
# machinery 0.5.0).  Those columns that are read here have jsonlog's names.
_CNPG = '"logger":"postgres"'


def _read_cnpg_line(raw: str) -> str:
    """Return what the server wrote; *raw* itself if the manager says it of its own."""
    try:
        found = json.loads(raw)
    except (ValueError, RecursionError):  # the line was cut
        return raw
    if not isinstance(found, dict) or found.get("logger") != "postgres":
        return raw
    record, text = found.get("record"), found.get("msg")
    if isinstance(record, dict):
        return json.dumps(record)
    return text if "pipe" in found and isinstance(text, str) else raw


def parse_line(raw: str) -> Line | None:
    """Return the message that a line of a log begins, None if it begins none."""
    if raw.startswith("{"):
        return _parse_json_line(raw)
    if _CONTINUES.match(raw):
        return None
    text = _POSTGRESQL.search(raw)
    parsed = [
        _parse_mysql_line(raw),
        _parse_csv_line(raw),
        _parse_unlogged_line(raw),
        text and _parse_text_line(raw, text),
    ]
    lines = [line for line in parsed if line is not None]
    if len(lines) > 1 or (text and _POSTGRESQL.search(text[2])):
        return Line(raw, lines[0].product, "", "", "", raw.strip())
    return lines[0] if lines else None


def _parse_mysql_line(raw: str) -> Line | None:
    """Return a line of MySQL or MariaDB, None if it is of neither."""
    if dying := _DYING.match(raw):
        product = Product.MYSQL if "[MY-" in raw else Product.MARIADB
        message = _MESSAGE_ORIGIN.sub("", dying[1], count=1)
        return Line(raw, product, "ERROR", "", message, _shorten_line(raw, dying[1]))
    mysql, mariadb = _MYSQL.search(raw), _MARIADB.search(raw)
    if mysql and not (mariadb and mariadb.start() < mysql.start()):
        severity, shown = (mysql[1] or "").upper(), mysql[0].strip()
        return Line(raw, Product.MYSQL, severity, mysql[2], mysql[3], shown)
    if mariadb:
        severity = (
            "FATAL" if mariadb[0].startswith(_MARIADB_FATAL) else mariadb[1].upper()
        )
        message = _MESSAGE_ORIGIN.sub("", mariadb[2], count=1)
        return Line(raw, Product.MARIADB, severity, "", message, mariadb[0].strip())
    return None


def _parse_csv_line(raw: str) -> Line | None:
    record = _CSV_RECORD.match(raw)
    if not (record and (parts := _CSV_MESSAGE.match(raw, record.end()))):
        return None
    message = "\n".join(filter(None, parts.groups())).replace('""', '"')
    shown = f"{record[1]}:  {message.split(chr(10))[0]}"
    return Line(raw, Product.POSTGRESQL, record[1], "", message, shown)


def _parse_unlogged_line(raw: str) -> Line | None:
    if not (match := _BEFORE_LOGGING.match(raw)):
        return None
    return Line(raw, Product.POSTGRESQL, "FATAL", "", match[1], match[0])


def _parse_text_line(raw: str, match: re.Match[str]) -> Line:
    message, shown = match[2].strip(), match[0].strip()
    return Line(raw, Product.POSTGRESQL, match[1], "", message, shown)


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


# Docker writes a JSON object for each line (Docker documentation, JSON File logging
# driver).  The engines of Kubernetes, and Podman, put a time, the stream and F before a
# line, or P before each part of a longer one (kubelet, kuberuntime/logs, parseCRILog).
_DOCKER = '{"log":'
_CRI = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+(?:Z|[+-][0-9]{2}:[0-9]{2})"
    r" (?:stdout|stderr) ([FP])(?::[^ ]*)? (.*)"
)


def unwrap_lines(text: str) -> str:
    """Return *text* without what a container engine wrote around the server's lines.

    A line that no engine wrote, or that was cut, stays as it is.
    """
    if _DOCKER not in text and " F " not in text:
        return text
    return "".join(_join_parts(text))


def _join_parts(text: str) -> Iterator[str]:
    for line in text.splitlines(keepends=True):
        if line.startswith(_DOCKER):
            yield _read_docker_line(line)
        elif found := _CRI.fullmatch(line.rstrip("\n")):
            yield found[2] + ("\n" if found[1] == "F" else "")
        else:
            yield line


def _read_docker_line(line: str) -> str:
    try:
        found = json.loads(line)
    except ValueError:  # the line was cut
        return line
    shown = found.get("log") if isinstance(found, dict) else None
    return shown if isinstance(shown, str) else line
