"""What servers log as they start, and the files whose damage they log."""

from __future__ import annotations

PG = "2026-11-22 01:16:32.595 UTC [14225] "

PG_START = (
    f"{PG}LOG:  starting PostgreSQL 15.18 (Debian 15.18-0+deb12u1) on x86_64\n"
    f'{PG}LOG:  listening on IPv4 address "127.0.0.1", port 21782\n'
    f"{PG}LOG:  database system was interrupted; last known up at 2026-11-22\n"
)

PG_EARLY = f"{PG}FATAL:  the database system is starting up\n"

PG_WAL = (
    f"{PG_START}{PG_EARLY}"
    f"{PG}LOG:  invalid magic number BE09 in log segment 000000010000000000000001\n"
    f"{PG}LOG:  invalid primary checkpoint record\n"
    f"{PG}PANIC:  could not locate a valid checkpoint record\n"
    f"{PG}LOG:  startup process (PID 14228) was terminated by signal 6: Aborted\n"
    f"{PG}LOG:  shutting down due to startup process failure\n"
    f"{PG}LOG:  database system is shut down\n"
)

MARIA = "2026-11-22  1:16:34 0 "

MARIA_START = (
    f"{MARIA}[Note] Starting MariaDB 10.11.19-MariaDB-0+deb12u1 source revision 5843d8"
    " server_uid jkeF/2YV89o= as process 14282\n"
)

MARIA_END = (
    f"{MARIA}[ERROR] Unknown/unsupported storage engine: InnoDB\n"
    f"{MARIA}[ERROR] Aborting\n"
)

MARIA_REDO = (
    f"{MARIA_START}{MARIA}[ERROR] InnoDB: Invalid log header checksum\n"
    f"{MARIA}[ERROR] InnoDB: Plugin initialization aborted with error Data structure"
    f" corruption\n{MARIA_END}"
)

MYSQL = "2026-11-22T01:16:36.741377Z 0 "

MYSQL_START = (
    f"{MYSQL}[System] [MY-010116] [Server] /usr/sbin/mysqld (mysqld 9.7.4-2) starting"
    " as process 14412\n"
)

MYSQL_PAGE = (
    f"{MYSQL_START}{MYSQL}[ERROR] [MY-011906] [InnoDB] Database page corruption on disk"
    " or a failed file read of page [page id: space=0, page number=5]. You may have to"
    " recover from a backup.\n"
    f"{MYSQL}[Note] [MY-011876] [InnoDB] Page dump in ascii and hex (16384 bytes):\n"
    " len 16384; hex 901437a3ecacad98\n"
)

PG_ABORTS = (
    f"{PG}LOG:  startup process (PID 14228) exited with exit code 1\n"
    f"{PG}LOG:  aborting startup due to startup process failure\n"
    f"{PG}LOG:  database system is shut down\n"
)

PG_SCANNED = (
    f"{PG_START}{PG}LOG:  redo starts at 0/17418D8\n"
    f"{PG}FATAL:  unsupported frontend protocol 65363.19778: server supports 3.0"
    " to 3.0\n"
    f"{PG}FATAL:  no PostgreSQL user name specified in startup packet\n"
    f'{PG}FATAL:  password authentication failed for user "checksum"\n'
)

PG_SLOT = (
    f'{PG_START}{PG}FATAL:  logical replication slot "debezium" exists, but wal_level <'
    f" logical\n{PG_ABORTS}"
)

MARIA_MYISAM = (
    f"{MARIA}[ERROR] mariadbd: Index for table './app/log.MYI' is corrupt; try to"
    " repair it\n"
    f"{MARIA}[ERROR] Got an error from thread_id=31, ./storage/myisam/ha_myisam.cc\n"
)

MARIA_PAGE = (
    f"{MARIA}[ERROR] InnoDB: Database page corruption on disk or a failed read of file"
    " './app/t.ibd' page [page id: space=5, page number=3].\n"
)

MARIA_KILLED = "261122  1:16:34 [ERROR] mysqld got signal 6 ;\n"

MARIA_ASSERTED = (
    "2026-11-22  1:16:34 0x7fa51d9fb6c0  InnoDB: Assertion failure in file ./buf0buf.cc"
    f" line 2713\n{MARIA_KILLED}"
)

LOGS = {
    "postgresql": "pg_wal/0*",
    "mariadb": "ib_logfile0",
    "mysql": "#innodb_redo/#ib_redo*[0-9]",
}

SAYS = {
    "postgresql": "PANIC:  could not locate a valid checkpoint record",
    "mariadb": "[ERROR] InnoDB: Invalid log header checksum",
    "mysql": "[ERROR] [MY-013089] [InnoDB] Invalid redo log header checksum",
}

PAGE_BYTES = 8192
