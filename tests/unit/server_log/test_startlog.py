"""What servers logged of starts that came to nothing; all in a server's words."""

from __future__ import annotations

import re

import pytest

from dbcheck.judge.item import Status
from dbcheck.judge.server_end import judge_crash_in_log
from dbcheck.model.host import LogTail
from dbcheck.server_log.postgresql import merge_early_log
from dbcheck.server_log.startlog import (
    StartOutcome,
    find_crash_of_session,
    find_damage,
    find_damage_that_ended_server,
    find_decisive_errors,
    find_lines_about_damage,
    find_shutdown_before_start,
    find_starts,
)
from tests.kit.server_logs import (
    MARIA,
    MARIA_ASSERTED,
    MARIA_END,
    MARIA_KILLED,
    MARIA_MYISAM,
    MARIA_PAGE,
    MARIA_REDO,
    MARIA_START,
    MYSQL,
    MYSQL_PAGE,
    MYSQL_START,
    PG,
    PG_ABORTS,
    PG_EARLY,
    PG_SCANNED,
    PG_SLOT,
    PG_START,
    PG_WAL,
)

PG_READY = f"{PG}LOG:  database system is ready to accept connections\n"
PG_REDO_CRASH = (
    f"{PG_START}{PG}LOG:  redo starts at 0/17418D8\n"
    f"{PG}LOG:  startup process (PID 14228) was terminated by signal 11: Segmentation"
    f" fault\n{PG}LOG:  aborting startup due to startup process failure\n"
)
PG_KILLED = PG_REDO_CRASH.replace("signal 11: Segmentation fault", "signal 9: Killed")
PG_FULL = (
    f'{PG_START}{PG}FATAL:  could not write to file "pg_wal/xlogtemp.9": No space left'
    f" on device\n{PG}LOG:  shutting down due to startup process failure\n"
)
PG_SETTING = f'{PG}FATAL:  invalid value for parameter "shared_buffers": "90000GB"\n'
PG_UNMOUNTED = (
    f'{PG_START}{PG}FATAL:  required WAL directory "pg_wal" does not exist\n'
    f"{PG}LOG:  startup process (PID 14228) exited with exit code 1\n"
)

MARIA_ARIA = (
    f"{MARIA_START}{MARIA}[ERROR] mariadbd: Got error 'Missing valid id at start of"
    " file. File is not a valid aria control file' when trying to use aria control file"
    f" '/data/aria_log_control'\n{MARIA}[ERROR] Failed to initialize plugins.\n"
    f"{MARIA}[ERROR] Aborting\n"
)
MARIA_MEMORY = (
    f"{MARIA_START}{MARIA}[ERROR] InnoDB: Cannot map innodb_buffer_pool_size_max\n"
    f"{MARIA}[ERROR] InnoDB: Plugin initialization aborted with error Generic error\n"
    f"{MARIA_END}"
)

MYSQL_REDO = (
    f"{MYSQL_START}{MYSQL}[ERROR] [MY-013089] [InnoDB] Invalid redo log header"
    f" checksum.\n{MYSQL}[ERROR] [MY-010119] [Server] Aborting\n"
    f"{MYSQL}[System] [MY-010910] [Server] /usr/sbin/mysqld: Shutdown complete (mysqld"
    " 9.7.4-2)  (Debian).\n"
)
MYSQL_TRACE = (
    f"{MYSQL_PAGE}{MYSQL}[ERROR] [MY-013183] [InnoDB] Assertion failure:"
    " buf0dblwr.cc:3096 thread 140\nstack_bottom = 7fd6261feaa0 thread_stack 0x100000\n"
    " #0 0x557404051e84 <unknown>\n #1 0x557404052484 _Z15my_server_abortv\n"
)
MYSQL_PAGE_SIZE = (
    f"{MYSQL_START}{MYSQL}[ERROR] [MY-012222] [InnoDB] Data file './ibdata1' uses page"
    " size 16384, but the innodb_page_size start-up parameter is 4096\n"
    f"{MYSQL}[ERROR] [MY-012237] [InnoDB] Corrupted page [page id: space=0, page"
    " number=0] of datafile './ibdata1' could not be found in the doublewrite buffer.\n"
    f"{MYSQL}[ERROR] [MY-010119] [Server] Aborting\n"
)
MYSQL_PORT = (
    f"{MYSQL_START}{MYSQL}[ERROR] [MY-010262] [Server] Can't start server: Bind on"
    f" TCP/IP port: Address already in use\n{MYSQL}[ERROR] [MY-010119] [Server]"
    " Aborting\n"
)
PG_SHUT = (
    f"{PG}LOG:  received fast shutdown request\n"
    f"{PG}LOG:  database system is shut down\n"
)
PG_SLOTS = (
    f"{PG_START}{PG}FATAL:  too many replication slots active before shutdown\n"
    f"{PG}HINT:  Increase max_replication_slots and try again.\n{PG_ABORTS}"
)
PG_ORIGINS = (
    f"{PG_START}{PG}PANIC:  could not find free replication state, increase"
    " max_replication_slots\n"
    f"{PG}LOG:  startup process (PID 14228) was terminated by signal 6: Aborted\n"
    f"{PG_ABORTS}"
)
PG_TIMELINE = (
    f"{PG_START}{PG}FATAL:  requested timeline 3 is not a child of this server's"
    f" history\n{PG_ABORTS}"
)
PG_WORKER = (
    f'{PG_START}{PG}LOG:  background worker "scheduler" (PID 9) was terminated by'
    " signal 11: Segmentation fault\n"
    f"{PG}LOG:  terminating any other active server processes\n"
    f"{PG}LOG:  all server processes terminated; reinitializing\n{PG_SHUT}"
)
PG_WORKER_ENDS = PG_WORKER.replace(
    "all server processes terminated; reinitializing",
    "shutting down because restart_after_crash is off",
)
PG_INVALID_PAGES = (
    "PANIC:  WAL contains references to invalid pages\n"
    f"{PG}LOG:  startup process (PID 14228) was terminated by signal 6: Aborted\n"
    f"{PG_ABORTS}"
)
PG_TABLESPACE = (
    f"{PG_START}{PG}WARNING:  page 0 of relation pg_tblspc/16400/PG_15_202209061/5"
    f"/16402 does not exist\n{PG}{PG_INVALID_PAGES}"
)
PG_RELATION = PG_TABLESPACE.replace("pg_tblspc/16400/PG_15_202209061/5", "base/5")
PG_BENIGN = f'{PG}FATAL:  archive file "1" is corrupt\n'
PG_CRASH = (
    f"{PG}PANIC:  corrupted item pointer: 0\n{PG}LOG:  server process (PID 9) was"
    " terminated by signal 6: Aborted\n"
)
PG_DIES_IN_REINIT = (
    f"{PG_START}{PG_READY}{PG_CRASH}"
    f"{PG}LOG:  all server processes terminated; reinitializing\n"
    f"{PG}LOG:  database system was interrupted; last known up at 2026-11-22\n"
    f"{PG}PANIC:  corrupted item pointer: 0\n"
    f"{PG}LOG:  startup process (PID 14230) was terminated by signal 6: Aborted\n"
    f"{PG_ABORTS}"
)

MARIA_READY = f"{MARIA}[Note] /usr/sbin/mariadbd: ready for connections.\n"
MARIA_SHUT = f"{MARIA}[Note] /usr/sbin/mariadbd: Shutdown complete\n"
MARIA_APP = f"{MARIA}[ERROR] InnoDB: Index `i` of table `app`.`t` is corrupted\n"
MARIA_KEY = (
    f"{MARIA_START}{MARIA}[ERROR] Plugin 'file_key_management' registration as a"
    " ENCRYPTION failed.\n"
    f"{MARIA}[ERROR] InnoDB: Encrypted page [page id: space=0, page number=7] in file"
    " ./ibdata1 looks corrupted; key_version=1\n"
    f"{MARIA}[ERROR] InnoDB: Plugin initialization aborted with error Data structure"
    f" corruption\n{MARIA_END}"
)
MARIA_KEY_ONLY = MARIA_KEY.replace(" registration as a ENCRYPTION failed", " is odd")
MARIA_MISSING = (
    f"{MARIA_START}{MARIA}[ERROR] InnoDB: Tablespace 5 was not found at"
    " '/mnt/fast/app/t.ibd'.\n"
    f"{MARIA}[ERROR] InnoDB: Missing FILE_DELETE or FILE_MODIFY for [page id: space=5,"
    " page number=3] at 57312; set innodb_force_recovery=1 to ignore the record.\n"
    f"{MARIA_END}"
)
MARIA_MISSING_INSIDE = MARIA_MISSING.replace("/mnt/fast", ".")
MARIA_PREPARED = (
    f"{MARIA_START}{MARIA}[ERROR] Found 1 prepared transactions! It means that server"
    " was not shut down properly last time and critical recovery information (last"
    " binlog or tc.log file) was manually deleted after a crash.\n"
    f"{MARIA}[ERROR] Can't init tc log\n{MARIA}[ERROR] Aborting\n"
)
MARIA_READY_SHUT = f"{MARIA_START}{MARIA_READY}{MARIA_APP}{MARIA_SHUT}"
MARIA_READY_DIES = f"{MARIA_START}{MARIA_READY}{MARIA_PAGE}{MARIA_ASSERTED}"
MARIA_ABORTED = (
    f"{MARIA_START}{MARIA}[Note] InnoDB: Starting crash recovery from checkpoint"
    f" LSN=9\n{MARIA_KILLED}"
)
MYSQL_ABORTED = (
    f"{MYSQL_START}{MYSQL}[System] [MY-013576] [InnoDB] InnoDB initialization has"
    " started.\n2026-11-22T01:16:37Z UTC - mysqld got signal 6 ;\n"
)
PG_ABORTED = PG_REDO_CRASH.replace("signal 11: Segmentation fault", "signal 6: Aborted")
MYSQL_KEYRING = (
    f"{MYSQL_START}{MYSQL}[ERROR] [MY-012657] [InnoDB] Encryption can't find master"
    " key, please check the keyring is loaded.\n"
    f"{MYSQL}[ERROR] [MY-012237] [InnoDB] Corrupted page [page id: space=0, page"
    " number=0] of datafile './ibdata1' could not be found in the doublewrite buffer.\n"
    f"{MYSQL}[ERROR] [MY-010119] [Server] Aborting\n"
)
# Reported by users, and not seen here: each as its source writes it (bufmgr.c,
# ReadBuffer_common; log0recv.cc; log0files_io.cc).
PG_BEYOND = (
    f"{PG_START}{PG}FATAL:  unexpected data beyond EOF in block 3 of relation"
    f" base/5/16390\n{PG}HINT:  This has been seen to occur with buggy kernels;"
    f" consider updating your system.\n{PG}CONTEXT:  WAL redo at 0/1 for Heap/INSERT\n"
    f"{PG_ABORTS}"
)
MARIA_GENERIC = (
    f"{MARIA}[ERROR] InnoDB: Plugin initialization aborted with error Generic error\n"
    f"{MARIA_END}"
)
MARIA_MALFORMED = (
    f"{MARIA_START}{MARIA}[ERROR] InnoDB: Malformed log record at LSN 44388; set"
    f" innodb_force_recovery=1 to ignore.\n{MARIA_GENERIC}"
)
MARIA_SCAN = (
    f"{MARIA_START}{MARIA}[Warning] InnoDB: Log scan aborted at LSN 44388\n"
    f"{MARIA_GENERIC}"
)
MYSQL_SIZE = (
    f"{MYSQL_START}{MYSQL}[ERROR] [MY-012962] [InnoDB] The redo log file"
    " ./#innodb_redo/#ib_redo6 size 1000 is not a multiple of innodb_page_size\n"
    f"{MYSQL}[ERROR] [MY-012930] [InnoDB] Plugin initialization aborted with error"
    f" Generic error.\n{MYSQL}[ERROR] [MY-010119] [Server] Aborting\n"
)
NEVER, RUNNING, DESTROYED, FAILED = StartOutcome


def start(name: str, text: str, outcome: StartOutcome, first: str = "") -> object:
    """Return a case: *text* shows this outcome, *first* being the decisive line."""
    return pytest.param(text, outcome, first, id=name)


@pytest.mark.parametrize(
    ("text", "outcome", "first"),
    [
        start(
            "PostgreSQL, its WAL overwritten",
            PG_WAL,
            DESTROYED,
            "PANIC:  could not locate a valid checkpoint record",
        ),
        start(
            "PostgreSQL, a crash in redo",
            PG_REDO_CRASH,
            DESTROYED,
            "LOG:  startup process (PID 14228) was terminated by signal 11:"
            " Segmentation fault",
        ),
        start("PostgreSQL, killed in recovery", PG_KILLED, FAILED),
        start(
            "PostgreSQL, a full disk",
            PG_FULL,
            FAILED,
            'FATAL:  could not write to file "pg_wal/xlogtemp.9": No space left on'
            " device",
        ),
        start("PostgreSQL, WAL not mounted", PG_UNMOUNTED, FAILED),
        start("PostgreSQL, a wrong setting", PG_SETTING, NEVER),
        start("PostgreSQL, recovering", PG_START + PG_EARLY, RUNNING),
        start("PostgreSQL, ready", PG_START + PG_READY, RUNNING),
        start("it tries once more", PG_WAL + PG_START, RUNNING),
        start(
            "it tries again and again",
            PG_WAL + PG_WAL + PG_START,
            DESTROYED,
            "PANIC:  could not locate a valid checkpoint record",
        ),
        start("mended", PG_WAL + PG_START + PG_READY, RUNNING),
        start(
            "MariaDB, its redo log overwritten",
            MARIA_REDO,
            DESTROYED,
            "[ERROR] InnoDB: Invalid log header checksum",
        ),
        start(
            "MariaDB, Aria's control file overwritten",
            MARIA_ARIA,
            DESTROYED,
            "[ERROR] mariadbd: Got error 'Missing valid id at start of file. File is"
            " not a valid aria control file' when trying to use aria control file"
            " '/data/aria_log_control'",
        ),
        start("MariaDB, no memory", MARIA_MEMORY, FAILED),
        start(
            "MySQL, its redo log overwritten",
            MYSQL_REDO,
            DESTROYED,
            "[ERROR] [MY-013089] [InnoDB] Invalid redo log header checksum.",
        ),
        start(
            "MySQL, a page and a stack trace",
            MYSQL_TRACE,
            DESTROYED,
            "[ERROR] [MY-011906] [InnoDB] Database page corruption on disk or a failed"
            " file read of page [page id: space=0, page number=5]. You may have to"
            " recover from a backup.",
        ),
        start("MySQL, a page, and it hangs", MYSQL_PAGE, DESTROYED),
        start("PostgreSQL, data beyond EOF", PG_BEYOND, DESTROYED),
        start("MariaDB, a malformed log record", MARIA_MALFORMED, DESTROYED),
        start("MariaDB, a scan that is aborted", MARIA_SCAN, DESTROYED),
        start("MySQL, a redo file of an odd size", MYSQL_SIZE, DESTROYED),
        start("MySQL, another page size", MYSQL_PAGE_SIZE, FAILED),
        start("MySQL, its port is taken", MYSQL_PORT, FAILED),
        start("MySQL, starting", MYSQL_START, RUNNING),
        start("nobody started it", "", NEVER),
        start("PostgreSQL, a port scanner", PG_SCANNED, RUNNING),
        start("scanned, and cut again", PG_SCANNED + PG_START, RUNNING),
        start("PostgreSQL, scanned, then aborted", PG_SCANNED + PG_ABORTS, FAILED),
        start("PostgreSQL, wal_level", PG_SLOT, FAILED),
        start("PostgreSQL, too few slots", PG_SLOTS, FAILED),
        start("PostgreSQL, too few origins", PG_ORIGINS, FAILED),
        start("PostgreSQL, a bare FATAL", PG_TIMELINE, FAILED),
        start("PostgreSQL, a worker crashes", PG_WORKER, FAILED),
        start("PostgreSQL, a worker crashes it", PG_WORKER_ENDS, FAILED),
        start("PostgreSQL, no tablespace", PG_TABLESPACE, FAILED),
        start("PostgreSQL, no pages", PG_RELATION, DESTROYED),
        start(
            "PostgreSQL, ready and shut down",
            PG_START + PG_READY + PG_BENIGN + PG_SHUT,
            FAILED,
        ),
        start("PostgreSQL, it panics", PG_START + PG_READY + PG_CRASH, DESTROYED),
        start("PostgreSQL, it cannot start over", PG_DIES_IN_REINIT, DESTROYED),
        start("MariaDB, no encryption", MARIA_KEY, FAILED),
        start("MariaDB, no key", MARIA_KEY_ONLY, FAILED),
        start("MySQL, no keyring", MYSQL_KEYRING, FAILED),
        start("MariaDB, no tablespace", MARIA_MISSING, FAILED),
        start("MariaDB, no file", MARIA_MISSING_INSIDE, DESTROYED),
        start("MariaDB, prepared", MARIA_PREPARED, FAILED),
        start("MariaDB, ready and shut down", MARIA_READY_SHUT, FAILED),
        start(
            "MariaDB, shut down twice",
            MARIA_READY_SHUT + MARIA_READY_SHUT + MARIA_START,
            RUNNING,
        ),
        start("MariaDB, ready and crashed", MARIA_READY_DIES, DESTROYED),
        start("MariaDB, an assertion", MARIA_START + MARIA_ASSERTED, DESTROYED),
        start("MariaDB, SIGABRT alone", MARIA_ABORTED, FAILED),
        start("MariaDB, SIGABRT, often", MARIA_ABORTED + MARIA_ABORTED, FAILED),
        start("MySQL, SIGABRT alone", MYSQL_ABORTED, FAILED),
        start("PostgreSQL, SIGABRT alone", PG_ABORTED, FAILED),
        start(
            "MariaDB, ready and SIGABRT",
            MARIA_START + MARIA_READY + MARIA_PAGE + MARIA_KILLED,
            FAILED,
        ),
        start(
            "MariaDB, ready in the end",
            MARIA_READY_DIES + MARIA_READY_DIES + MARIA_START + MARIA_READY,
            RUNNING,
        ),
    ],
)
def test_what_came_of_a_start(text: str, outcome: StartOutcome, first: str) -> None:
    starts = find_starts(text)
    assert starts.outcome is outcome, starts
    assert not first or starts.lines[0] == first


def test_the_decisive_lines_are_not_the_tail_of_a_stack_trace() -> None:
    lines = find_decisive_errors(MYSQL_TRACE)
    assert "MY-011906" in lines[0]
    assert not any("0x5574" in line for line in lines)
    assert find_decisive_errors("nothing of note\n") == ()
    assert find_decisive_errors(MYSQL_PORT)[0].startswith("[ERROR] [MY-010262]")


def test_damage_is_only_what_names_it() -> None:
    assert find_damage(MYSQL_TRACE)
    assert not find_damage(MYSQL_PORT)
    assert not find_damage(PG_EARLY)


@pytest.mark.parametrize(
    ("text", "ended"),
    [
        pytest.param(MARIA_MYISAM, False, id="MyISAM, in an application"),
        pytest.param(MARIA_MYISAM + MARIA_KILLED, False, id="MyISAM, and a crash"),
        pytest.param(MARIA_PAGE, False, id="a page, and it goes on"),
        pytest.param(MARIA_PAGE + MARIA_ASSERTED, True, id="a page, and a crash"),
        pytest.param(MARIA_PAGE + MARIA_KILLED, False, id="a page, and SIGABRT alone"),
        pytest.param(MARIA_PAGE + MARIA_START, True, id="a page, and another start"),
        pytest.param(
            MARIA_PAGE + MARIA_SHUT + MARIA_START, False, id="a page, and a shutdown"
        ),
        pytest.param(MARIA_KILLED, False, id="a crash alone"),
        pytest.param(MARIA_START + MARIA_PAGE, False, id="a page after the start"),
        pytest.param(MYSQL_TRACE.removeprefix(MYSQL_START), True, id="MySQL"),
        pytest.param(PG_CRASH, True, id="PostgreSQL"),
    ],
)
def test_damage_ended_a_server_only_if_it_says_both(text: str, ended: bool) -> None:
    assert bool(find_damage_that_ended_server(text)) is ended


PG_READER = (
    f"{PG}LOG:  server process (PID 9) was terminated by signal 11: Segmentation"
    f" fault\n{PG}DETAIL:  Failed process was running: copy (select id)\n"
    f"{PG}LOG:  terminating any other active server processes\n"
)
MARIA_READER = (
    "261122  1:16:34 [ERROR] mysqld got signal 11 ;\n"
    "Sorry, we probably made a mistake, and this is a bug.\n"
    "Query (0x7f): SELECT id FROM ledger\n\nConnection ID (thread ID): 9\n"
    "Status: NOT_KILLED\n"
)


@pytest.mark.parametrize(
    ("text", "first"),
    [
        pytest.param(PG_READER, "LOG:  server process (PID 9) was term", id="PG 15"),
        pytest.param(
            PG_READER.replace("server process", "client backend"),
            "LOG:  client backend (PID 9)",
            id="PG 18",
        ),
        pytest.param(PG_READER.replace("PID 9", "PID 99"), "", id="another process"),
        pytest.param(PG_READER.replace("11: S", "9: Killed"), "", id="SIGKILL"),
        pytest.param(PG_READER.replace("11: S", "6: Ab"), "", id="SIGABRT alone"),
        pytest.param(
            f"{PG}PANIC:  corrupted item pointer: 0\n"
            + PG_READER.replace("11: S", "6: Ab"),
            "LOG:  server process (PID 9)",
            id="SIGABRT after a PANIC",
        ),
        pytest.param(MARIA_READER.replace("11 ;", "6 ;"), "", id="MariaDB, SIGABRT"),
        pytest.param(PG_READER.replace("11: S", "7: Bus error"), "", id="huge pages"),
        pytest.param(
            f"{MARIA}[ERROR] mariadbd: Out of memory (Needed 9 bytes)\n{MARIA_READER}",
            "",
            id="no memory",
        ),
        pytest.param(MARIA_READER, "[ERROR] mysqld got signal 11", id="MariaDB"),
        pytest.param(MARIA_READER.replace(": 9", ": 99"), "", id="another thread"),
        pytest.param(MARIA_READER.replace("11 ;", "9 ;"), "", id="no fault"),
    ],
)
def test_a_crash_of_the_very_process_that_read(text: str, first: str) -> None:
    lines = find_crash_of_session(f"{PG_EARLY}{text}{PG_EARLY}", 9)
    assert bool(lines) is bool(first)
    assert not first or first in lines[0]


def test_only_a_server_that_took_queries_was_shut_down_before_a_start() -> None:
    """A start that fails ends with the same words."""
    assert find_shutdown_before_start(PG_SHUT + PG_WAL)
    assert not find_shutdown_before_start(PG_WAL)
    assert not find_shutdown_before_start(PG_SETTING + PG_SHUT.splitlines(True)[-1])
    unknown = f"{PG}FATAL:  could not frobnicate\n"
    assert not find_shutdown_before_start(unknown + PG_SHUT.splitlines(True)[-1])


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        pytest.param(
            f"{PG}WARNING:  page verification failed, calculated checksum 1 but"
            f" expected 2\n{PG}ERROR:  invalid page in block 3 of relation"
            " base/5/16390\n",
            (
                "WARNING:  page verification failed, calculated checksum 1 but"
                " expected 2",
                "ERROR:  invalid page in block 3 of relation base/5/16390",
            ),
            id="PostgreSQL",
        ),
        pytest.param(
            MARIA_APP,
            ("[ERROR] InnoDB: Index `i` of table `app`.`t` is corrupted",),
            id="MariaDB",
        ),
        pytest.param(
            f"{MARIA}[ERROR] mariadbd: Table './app/t' is marked as crashed; corrupt\n",
            (),
            id="MyISAM",
        ),
        pytest.param(f"{PG}LOG:  checksums are off\n", (), id="no complaint"),
        pytest.param(f"{PG}ERROR:  division by zero\n", (), id="another error"),
    ],
)
def test_complaints(text: str, shown: tuple[str, ...]) -> None:
    assert find_lines_about_damage(text) == shown


PG_HANDS_OVER = (
    f"{PG}LOG:  redirecting log output to logging collector process\n"
    f'{PG}HINT:  Future log output will appear in directory "log".\n'
)
PG_CONTROL = f"{PG}FATAL:  incorrect checksum in control file\n"


@pytest.mark.parametrize(
    ("collected", "early", "whole"),
    [
        (PG_READY, "", PG_READY),
        (PG_BENIGN, PG_CONTROL, PG_BENIGN + PG_CONTROL),
        (
            PG_BENIGN + PG_START + PG_READY,
            PG_CONTROL + PG_HANDS_OVER,
            PG_BENIGN + PG_CONTROL + PG_START + PG_READY,
        ),
        (
            PG_START + PG_READY,
            PG_HANDS_OVER + PG_CONTROL,
            PG_START + PG_READY + PG_CONTROL,
        ),
        (PG_START + PG_READY, PG_CONTROL, PG_START + PG_READY),  # the order is unknown
        (PG_READY, PG_CONTROL + PG_HANDS_OVER, PG_READY),
    ],
)
def test_what_came_before_the_collector_stands_before_its_start(
    collected: str, early: str, whole: str
) -> None:
    assert merge_early_log(collected, early) == whole


@pytest.mark.parametrize(
    ("file", "outcome"),
    [
        pytest.param("'./undo_001'.", StartOutcome.DESTROYED, id="of the data"),
        pytest.param("'/undo/undo_001'.", StartOutcome.FAILED, id="of a volume"),
        pytest.param("number 1", StartOutcome.FAILED, id="MySQL 9.7 names no path"),
    ],
)
def test_an_undo_tablespace_elsewhere_may_be_on_a_volume_that_is_not_mounted(
    file: str, outcome: StartOutcome
) -> None:
    line = f"{MYSQL}[ERROR] [MY-012893] [InnoDB] Unable to open undo tablespace {file}"
    aborted = f"{MYSQL}[ERROR] [MY-010119] [Server] Aborting"
    assert find_starts(f"{MYSQL_START}{line}\n{aborted}\n").outcome is outcome


def csvlog(text: str) -> str:
    """Return what PostgreSQL's csvlog has of *text*, which has fractions of seconds."""
    found = re.findall(r"(.+?) \[\d+\] (\w+):  (.+)", text)
    return "".join(
        f'{at},,,1,,6.1,1,,2026-11-22 01:16:30 UTC,,0,{severity},00000,"{quoted}",,,\n'
        for at, severity, message in found
        for quoted in [message.replace('"', '""')]
    )


PG_AFTER = PG_START.replace(":32.595", ":34.595")
WITHOUT_MS, WITHOUT_TIME = r"\1 UTC", ""


@pytest.mark.parametrize("prefix", [r"\1.\2 UTC", WITHOUT_MS, WITHOUT_TIME])
@pytest.mark.parametrize("first", ["text", "csv"])
@pytest.mark.parametrize(
    ("attempts", "outcome"),
    [
        pytest.param((PG_WAL, PG_AFTER), StartOutcome.RUNNING, id="one failed"),
        pytest.param(
            (PG_WAL, PG_WAL, PG_AFTER), StartOutcome.DESTROYED, id="two failed at once"
        ),
    ],
)
def test_an_attempt_counts_once_in_whatever_forms_it_is_logged(
    attempts: tuple[str, ...], outcome: StartOutcome, first: str, prefix: str
) -> None:
    log = "".join(attempts)
    assert find_starts(log).outcome is find_starts(csvlog(log)).outcome is outcome
    text = re.sub(r"(?m)^(\S+ \S+)\.(\d+) UTC", prefix, log)
    both = (text, csvlog(log)) if first == "text" else (csvlog(log), text)
    assert find_starts("".join(both)).outcome is outcome


def test_a_time_without_its_fraction_may_be_of_the_second_before() -> None:
    """PostgreSQL asks another, coarser clock for it (elog.c, log_line_prefix)."""
    log = PG_WAL + PG_AFTER
    text = log.replace(":32.595", ":31").replace(":34.595", ":33")
    assert find_starts(text + csvlog(log)).outcome is StartOutcome.RUNNING


SHUT_WORDS = "database system is shut down"
REFUSED = "Access denied for user '{}'@'localhost' (using password: YES)"


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(
            f"{PG}LOG:  {SHUT_WORDS} ERROR:  division by zero\n", id="a prefix with %a"
        ),
        pytest.param(
            f"{PG}[Note] mariadbd: Shutdown complete ERROR:  division by zero\n",
            id="a prefix with another product's form",
        ),
        pytest.param(
            f"postgres: could not find the database system {PG}ERROR:  division\n",
            id="a prefix with what is said before the log",
        ),
        pytest.param(
            f"InnoDB: Assertion failure {PG}ERROR:  division by zero\n",
            id="a prefix with an assertion",
        ),
        pytest.param(
            f'{PG}ERROR:  relation "LOG:  {SHUT_WORDS}" does not exist\n',
            id="a message",
        ),
        pytest.param(
            f'{PG}ERROR:  column ",LOG,00000,"{SHUT_WORDS}"" does not exist\n',
            id="a message with csvlog's form",
        ),
        pytest.param(
            f"{PG}ERROR:  division by zero\n{PG}STATEMENT:  select 1/0\n"
            f"\tLOG:  {SHUT_WORDS}\n",
            id="a statement of two lines",
        ),
        pytest.param(
            f"[5-1] {PG}STATEMENT:  select 1/0\n[5-2] #011LOG:  {SHUT_WORDS}\n"
            f"[5-3] LOG:  {SHUT_WORDS}\n",
            id="the same in syslog",
        ),
        pytest.param(
            '2026-11-22 01:16:32.595 UTC,"u","d",9,,6.1,1,"SELECT",2026-11-22'
            ' 01:16:30 UTC,,0,ERROR,22012,"division by zero",,,,,,"select 1/0 /*\n'
            f"LOG:  {SHUT_WORDS}\n"
            f'2026-11-22 01:16:32.595 UTC,,,9,,6.1,1,,,,0,LOG,00000,""{SHUT_WORDS}""\n'
            f'LOG:  {SHUT_WORDS}\n*/",,,"psql"\n',
            id="the same in csvlog",
        ),
        pytest.param(
            f"{MARIA}[Warning] "
            + REFUSED.format("[Note] mariadbd: Shutdown complete")
            + "\n",
            id="MariaDB, a user's name",
        ),
        pytest.param(
            f"{MARIA}[Warning] "
            + REFUSED.format("[MY-013172] [Server] Received SHUTDOWN")
            + "\n",
            id="MariaDB, a name with MySQL's form",
        ),
        pytest.param(
            f"{MARIA}[Warning] Aborted connection 3 to db: 'Assertion failure' user:"
            " 'mysqld got signal 11' host: '127.0.0.1' ([ERROR] Aborting)\n",
            id="MariaDB, an aborted connection",
        ),
        pytest.param(
            f"{MYSQL}[Note] [MY-010926] [Server] "
            + REFUSED.format("[System] [MY-013172] [Server] Received SHUTDOWN")
            + "\n",
            id="MySQL, a user's name",
        ),
    ],
)
def test_what_a_client_chose_shows_nothing(text: str) -> None:
    """Neither an end, nor a failure of a start, before the next or after it."""
    status, _ = judge_crash_in_log(LogTail(text, truncated=False, rewound=False))
    assert status is Status.NOT_OBSERVABLE
    for begun in (PG_START, MARIA_START, MYSQL_START):
        assert find_starts(begun + text).outcome is RUNNING, begun
    assert not find_lines_about_damage(text)


def test_a_record_that_the_power_tore_hides_no_later_one() -> None:
    """It has no closing quote."""
    torn = '2026-11-22 01:16:32.595 UTC,"u","d",9,,6.1,1,,,,0,ERROR,22012,"div'
    text = f"{torn}\n{csvlog(PG_START)}"
    assert judge_crash_in_log(LogTail(text, False, False))[0] is Status.PRESENT
