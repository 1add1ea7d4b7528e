"""A server's attempts to start, and what ended them, from its log.

Each line is looked up in the table of its product (server_log).  The first error of a
start that failed is taken for its cause: damaged data, or one of many innocent things.
An error that is in no table is of unknown cause: neither it nor any later error of the
start is held against the data.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

from dbcheck.server_log import Product, mariadb, mysql, postgresql
from dbcheck.server_log.lines import DAMAGE, Line, Shows, is_complaint, read_lines

LINES_MAX = 3
LINE_CHARS_MAX = 300

TABLES = {
    Product.POSTGRESQL: postgresql.TABLE,
    Product.MARIADB: mariadb.TABLE,
    Product.MYSQL: mysql.TABLE,
}


class StartOutcome(enum.Enum):
    """Outcome of a server's attempts to start."""

    NEVER_STARTED = "never started"
    RUNNING = "running"  # recovering, or ready
    DESTROYED = "destroyed"  # its own damaged data ended it
    FAILED = "failed"  # something else ended it, or the cause is not known


@dataclass(frozen=True, slots=True)
class Starts:
    """Attempts to start that a log shows since a mark.

    lines:   the decisive lines, in the log's order; () if there are none.
    missing: of DESTROYED: the lines name only files that are not there, as if a volume
             were mounted too late.
    known:   of FAILED: the table has what ended the start, and it is not the data.
    """

    outcome: StartOutcome
    lines: tuple[str, ...] = ()
    missing: bool = False
    known: bool = False


@dataclass
class _Life:
    """Lines that a server logged from one start to the next.

    has_start: the server began to start here; False: the log begins here, and the
               server took queries already.
    """

    lines: list[Line] = field(default_factory=list)
    has_start: bool = True

    @property
    def ready_at(self) -> int | None:
        """The index of the last line that shows it took queries, None without one."""
        places = [
            place for place, line in enumerate(self.lines) if line.shows is Shows.READY
        ]
        return places[-1] if places else None

    def shows(self, *what: Shows) -> bool:
        """Return True if a line shows one of *what*."""
        return any(line.shows in what for line in self.lines)

    @property
    def serving(self) -> list[Line]:
        """The lines since it took queries, [] if it never did."""
        if not self.has_start:
            return self.lines
        return [] if self.ready_at is None else self.lines[self.ready_at + 1 :]


@lru_cache(maxsize=2)  # a judgement reads one log, or two, many times
def read_known_lines(text: str) -> tuple[Line, ...]:
    """Return the messages of a log, each with the row of its product's table."""
    return tuple(
        replace(line, entry=TABLES[line.product].find(line.message, line.code))
        for line in read_lines(text)
    )


def find_starts(text: str) -> Starts:
    """Find the outcome of the attempts to start in *text*.

    It is the outcome of the last attempt, with one exception: while the last attempt is
    under way and has taken no queries yet, it is DESTROYED if damaged data ended two or
    more attempts before it.
    """
    lives = [
        life for life in _split_into_lives(read_known_lines(text)) if life.has_start
    ]
    if not lives:
        return Starts(StartOutcome.NEVER_STARTED)
    attempts = [_judge_attempt(life, last=life is lives[-1]) for life in lives]
    destroyed = [
        attempt for attempt in attempts if attempt.outcome is StartOutcome.DESTROYED
    ]
    if (
        attempts[-1].outcome is StartOutcome.RUNNING
        and len(destroyed) > 1
        and lives[-1].ready_at is None
    ):
        return destroyed[-1]
    return attempts[-1]


def read_since_last_start(text: str) -> str:
    """Return the messages since the last start in *text*, "" if it shows none."""
    lives = [
        life for life in _split_into_lives(read_known_lines(text)) if life.has_start
    ]
    return "".join(f"{line.raw}\n" for line in lives[-1].lines) if lives else ""


def find_last_complaints(text: str) -> tuple[str, ...]:
    """Return the last warnings and errors of *text*; () if it has none."""
    complaints = [
        line for line in read_known_lines(text) if _is_servers_complaint(line)
    ]
    return _shorten_lines(complaints[-LINES_MAX:])


def is_in_other_language(text: str) -> bool:
    """Return True if PostgreSQL logs in a language that is not English.

    Its log begins with its version, which is not translated in any language
    (postmaster.c; version.c, PG_VERSION_STR).
    """
    version_lines = [
        line for line in read_known_lines(text) if _VERSION.search(line.message)
    ]
    return bool(version_lines) and not any(
        line.shows is Shows.STARTS for line in version_lines
    )


_VERSION = re.compile(r"PostgreSQL [0-9.]+\b[^\n]{0,200} compiled by ")


# Each name that a start logs of its server, and the message that has it: the server_uid
# of MariaDB, which is made of port and host (mysqld.cc, calculate_server_uid); the port
# of MySQL, once it takes queries (ER_SERVER_STARTUP_MSG), and of PostgreSQL (pqcomm.c,
# StreamServerPort).
NAMES = {
    "server_uid": re.compile(r"Starting MariaDB [^\n]{0,200} server_uid (\S{1,64}) as"),
    "port": re.compile(
        r"(?:\S{0,200}: ready for connections\. Version: [^\n]{0,600} port: |"
        r"listening on (?:IPv[46] address \"[^\n]{0,100}\", port |"
        r"Unix socket \"[^\n]{0,200}\.s\.PGSQL\.))([1-9][0-9]{0,4})\b"
    ),
}


def find_other_server(text: str, names: Mapping[str, str]) -> str:
    """Return the sign that *text* has starts of several servers, or of another one.

    "" if there is no such sign.  Several servers may be set to write to one log.

    names: key of NAMES -> its value for the server in question, as far as known.
    """
    lines = read_known_lines(text)
    for name, pattern in NAMES.items():
        matches = (pattern.match(line.message) for line in lines)
        values = list(dict.fromkeys(match[1] for match in matches if match))
        own = names.get(name) or (values[0] if values else "")
        if others := [value for value in values if value != own]:
            return f"{name} {others[0]}, and not {own}"
    return ""


def find_sign_of_crash(text: str) -> str:
    """Return the message that shows that the server was not shut down, "" if none."""
    signs = [line for line in read_known_lines(text) if line.shows is Shows.CUT]
    return signs[0].message if signs else ""


def find_shutdown(text: str) -> str:
    """Return the message that shows that a server that took queries was shut down.

    "" if none does.  A start that fails, for whatever reason, ends with the same words
    as a server that is shut down (miscinit.c, UnlinkLockFiles; mysqld.cc,
    unireg_abort): these words do not count if the server had taken no queries.
    """
    was_cut = False
    for life in _split_into_lives(read_known_lines(text)):
        was_cut = was_cut or life.shows(Shows.CUT)
        shutdowns = [line for line in life.lines if line.shows is Shows.SHUT]
        if shutdowns and not was_cut:
            return shutdowns[0].message
        if life.serving or not life.has_start:
            if stopped := _find_orderly_end(life.serving):
                return stopped
            was_cut = False
    return ""


def find_shutdown_before_start(text: str) -> str:
    """Return the shutdown of a server that took queries as *text* begins.

    The message that shows it, before any start; "" if none does.
    """
    first = next(iter(_split_into_lives(read_known_lines(text))))
    return "" if first.has_start else _find_orderly_end(first.lines)


def find_decisive_errors(text: str) -> tuple[str, ...]:
    """Return the first errors in *text*, those about damaged data if there are any."""
    errors = [line for line in read_known_lines(text) if line.is_error]
    return _shorten_lines(_find_errors_about_damage(errors) or errors)


def find_damage(text: str, names: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the first errors in *text* that name damaged data, () if none does.

    names: only those with one of these names in them, and not of a file that is not
    there, as a volume may be mounted late; () for all.  In a file name InnoDB writes a
    hyphen, say, as @002d, which continues the name.
    """
    return _find_damage_lines(read_known_lines(text), names)


def names_damage(answer: str, *, missing: bool = True) -> bool:
    """Return True if what a server answered a client names damaged data.

    The message is looked for wherever one may begin, as drivers put words before it.
    missing: a file that is not there counts, too.
    """
    meanings = DAMAGE if missing else DAMAGE - {Shows.MISSING}
    starts = [match.end() for match in re.finditer(r"\A|: +|\) |\n", answer)]
    entries = (
        table.find(answer[begin:]) for begin in starts for table in TABLES.values()
    )
    return any(entry is not None and entry.shows in meanings for entry in entries)


def find_lines_about_damage(text: str) -> tuple[str, ...]:
    """Return the first lines of *text* about damaged data, of whatever tables.

    Lines of statements that failed, and of damage that was repaired, count too.  Lines
    about MyISAM do not, which does not promise to survive a crash.
    """
    return _shorten_lines(
        [
            line
            for line in read_known_lines(text)
            if is_complaint(line) and line.shows in DAMAGE
        ]
    )


def find_damage_that_ended_server(text: str) -> tuple[str, ...]:
    """Return the errors that name damaged data, if the running server ended itself.

    The server ended itself if it logged a crash, or if it started again without an
    orderly shutdown.

    text: the log of a server that took queries when the text began.
    """
    lives = list(_split_into_lives(read_known_lines(text)))
    if lives[0].has_start:
        return ()
    running = lives[0].lines
    ended_unasked = len(lives) > 1 and not _find_orderly_end(running)
    return (
        _find_damage_lines(running)
        if ended_unasked or _has_ended_itself(running)
        else ()
    )


def find_crash_of_session(text: str, session: int) -> tuple[str, ...]:
    """Return the lines of *text* on a crash of what served that session, () if none.

    A signal that no fault of a program raises, as SIGKILL and SIGTERM, is no crash.
    Neither is SIGABRT without an error of the program itself before it, nor any signal
    beside errors about memory, space and the like.

    session: PostgreSQL's process id; the connection's number of other servers.
    """
    lines = read_known_lines(text)
    if any(line.is_error and line.shows is Shows.INNOCENT for line in lines):
        return ()
    crashed = _find_crash_lines(lines)
    process = re.compile(rf"\(PID {session}\) was terminated")
    if own := [line for line in crashed if process.search(line.message)]:
        return _shorten_lines(own[:1])
    if re.search(rf"Connection ID \(thread ID\): {session}\b", text):
        asserted = [
            line for line in lines if line.message.startswith("Assertion failure")
        ]
        return _shorten_lines([*asserted, *crashed])
    return ()


def _split_into_lives(lines: Iterable[Line]) -> list[_Life]:
    """Split lines into lives, start by start; the first, without a start, may be empty.

    A server may fail before the line that starts it: then each early error begins an
    attempt of its own.
    """
    lives = [_Life(has_start=False)]
    early: list[Line] = []
    for line in lines:
        if line.entry is not None and line.entry.early and line.severity == "LOG":
            early.append(line)
            continue
        if _begins_life(line, lives[-1]):
            lives.append(_Life([*early, line]))
        else:
            lives[-1].lines += [*early, line]
        early = []
    lives[-1].lines += early
    return lives


def _begins_life(line: Line, life: _Life) -> bool:
    if line.shows is Shows.STARTS:
        start_has_begun = life.shows(Shows.BEGINS) and not life.shows(Shows.STARTS)
        return not start_has_begun
    return line.shows is Shows.BEGINS or _fails_early(line)


def _fails_early(line: Line) -> bool:
    return line.entry is not None and line.entry.early and line.is_severe


def _judge_attempt(life: _Life, *, last: bool) -> Starts:
    lines = life.lines
    restarts = [
        place for place, line in enumerate(lines) if line.shows is Shows.RESTARTS
    ]
    if restarts:
        life = _Life(lines[restarts[-1] + 1 :])
        lines = life.lines
    if life.ready_at is not None:
        return _judge_end_of_service(life.serving, last=last)
    errors = [line for line in lines if line.is_error]
    hopeless = any(line.shows is Shows.HOPELESS for line in errors)
    if last and not _has_ended(lines) and not hopeless:
        return Starts(StartOutcome.RUNNING)
    return _find_cause_of_failed_start(lines, errors)


def _judge_end_of_service(lines: Sequence[Line], *, last: bool) -> Starts:
    """Judge the fate of a server that took queries before it logged *lines*."""
    damage = _find_damage_lines(lines)
    if last and not _has_ended(lines):
        # Every login reads the files that all databases share.
        shared = [
            line
            for line in _find_errors_about_damage(lines)
            if "global/" in line.message
        ]
        if shared:
            return Starts(StartOutcome.DESTROYED, _shorten_lines(shared))
        return Starts(StartOutcome.RUNNING, damage)
    if damage and _has_ended_itself(lines) and not _find_orderly_end(lines):
        return Starts(StartOutcome.DESTROYED, damage)
    return Starts(StartOutcome.FAILED, _shorten_lines([e for e in lines if e.is_error]))


def _find_cause_of_failed_start(
    lines: Sequence[Line], errors: Sequence[Line]
) -> Starts:
    """Find the cause that ended a start that took no queries."""
    innocent = [line for line in errors if line.shows is Shows.INNOCENT]
    if innocent:
        return Starts(StartOutcome.FAILED, _shorten_lines(innocent), known=True)
    errors_of_cause = [line for line in errors if line.shows is not Shows.CONTENT]
    outside = any(line.shows is Shows.OUTSIDE for line in lines)
    first = errors_of_cause[0] if errors_of_cause else None
    if first is None or not _accuses_data(first, outside=outside):
        complaints = [line for line in lines if _is_servers_complaint(line)]
        return Starts(
            StartOutcome.FAILED, _shorten_lines(errors_of_cause or complaints)
        )
    about_damage = _find_errors_about_damage(errors_of_cause) or errors_of_cause
    has_content_error = any(line.shows is Shows.CONTENT for line in lines)
    only_missing = first.shows is Shows.MISSING and not has_content_error
    return Starts(StartOutcome.DESTROYED, _shorten_lines(about_damage), only_missing)


def _accuses_data(line: Line, *, outside: bool) -> bool:
    """Return True if the data are to blame for a start whose first error is *line*.

    Of PostgreSQL's processes only the one that recovers reads the data in a start.
    """
    if line.shows is Shows.MISSING:
        return not outside
    if line.shows is Shows.CRASHED and line.product is Product.POSTGRESQL:
        return line.message.startswith("startup process ")
    return line.shows in DAMAGE or line.shows is Shows.CRASHED


def _is_servers_complaint(line: Line) -> bool:
    of_client = line.product is Product.POSTGRESQL and line.shows is Shows.ASIDE
    return is_complaint(line) and not of_client


def _has_ended(lines: Sequence[Line]) -> bool:
    """Return True if a server that logged *lines* last has ended.

    In PostgreSQL a FATAL of any process but the startup process ends only that process
    (postmaster.c, process_pm_child_exit).  But a FATAL before the line that starts the
    server is the server's own.
    """
    meanings_of_end = (Shows.FAILS, Shows.STOPPED, Shows.CRASHED, Shows.ABORTED)
    return any(
        line.shows in meanings_of_end
        or line.severity == "PANIC"
        or line.message.startswith("Assertion failure")
        or _fails_early(line)
        for line in lines
    )


def _has_ended_itself(lines: Sequence[Line]) -> bool:
    return any(line.shows is Shows.CRASHED or _gives_up(line) for line in lines)


def _gives_up(line: Line) -> bool:
    """Return True if a program ends itself, with SIGABRT, after it logged *line*."""
    return (
        line.severity == "PANIC"
        or line.message.startswith("Assertion failure")
        or (line.product is Product.MARIADB and line.severity == "FATAL")
    )


def _find_crash_lines(lines: Sequence[Line]) -> list[Line]:
    """Return the lines of crashes; SIGABRT counts only after the program gave up."""
    gave_up = False
    crash_lines = []
    for line in lines:
        gave_up = gave_up or _gives_up(line)
        if line.shows is Shows.CRASHED or (line.shows is Shows.ABORTED and gave_up):
            crash_lines.append(line)
    return crash_lines


def _find_orderly_end(lines: Sequence[Line]) -> str:
    """Return the message of an orderly end among *lines*, "" if there is none.

    A server that gives up logs the same message after an error, without a request to
    shut down.

    lines: of a server that took queries.
    """
    asked = failed = False
    for line in lines:
        asked = asked or line.shows is Shows.ASKED
        failed = failed or line.shows is Shows.FAILS
        failed = failed or line.severity in ("FATAL", "PANIC") and line.is_error
        if line.shows is Shows.STOPPED and (asked or not failed):
            return line.message
        if line.shows is Shows.ASKED and line.product is not Product.POSTGRESQL:
            return line.message
    return ""


def _find_damage_lines(
    lines: Sequence[Line], names: Sequence[str] = ()
) -> tuple[str, ...]:
    wanted_names = re.compile(
        "|".join(rf"(?<![\w@-]){re.escape(name)}(?![\w@-])" for name in names)
    )
    if any(line.is_error and line.shows is Shows.INNOCENT for line in lines):
        return ()
    return _shorten_lines(
        [
            line
            for line in _find_errors_about_damage(lines)
            if wanted_names.search(line.message)
            and not (names and line.shows is Shows.MISSING)
        ]
    )


def _find_errors_about_damage(lines: Sequence[Line]) -> list[Line]:
    """Return the errors about damaged data.

    Missing files do not count if a file outside of the data directory is missing, too.
    """
    outside_is_missing = any(line.shows is Shows.OUTSIDE for line in lines)
    return [
        line
        for line in lines
        if line.is_error
        and line.shows in DAMAGE
        and not (outside_is_missing and line.shows is Shows.MISSING)
    ]


def _shorten_lines(lines: Sequence[Line]) -> tuple[str, ...]:
    """Return the first of *lines*, shortened, with the detail of each."""
    return tuple(
        "; ".join((line.shown, *line.message.split("\n")[1:2]))[:LINE_CHARS_MAX]
        for line in lines[:LINES_MAX]
    )
