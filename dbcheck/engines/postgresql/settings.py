"""The settings that dbcheck's sessions depend on, and the values that they need.

Each setting can be changed for a server, a database or an account (PostgreSQL 17
manual, chapter 19), so every connection sets them and reads them back; a setting that
the server's version does not have is left out.  Settings that decide whether a commit
is durable (synchronous_commit, commit_delay, ...) are under test and never set here.
"""

from __future__ import annotations

from collections.abc import Mapping

SESSION: Mapping[str, str] = {
    # What a statement means.  dbcheck writes every name of a table with its schema.
    "search_path": "pg_catalog",
    "default_transaction_isolation": "read committed",
    "default_transaction_deferrable": "off",
    # A policy that would hide rows leads to an error instead.
    "row_security": "off",
    # The table is an ordinary one; an account may have another access method.
    "default_table_access_method": "heap",
    # No time limits of the server: dbcheck has its own.
    "statement_timeout": "0",
    "lock_timeout": "0",
    "idle_in_transaction_session_timeout": "0",
    "idle_session_timeout": "0",  # from 14 on
    "transaction_timeout": "0",  # from 17 on
    # How values are written and read.
    "client_encoding": "UTF8",
    "standard_conforming_strings": "on",
    "bytea_output": "hex",
    "DateStyle": "ISO, MDY",
    "IntervalStyle": "postgres",
    "TimeZone": "UTC",
    "extra_float_digits": "1",
    # Reading a table needs no other file of the installation and no shared memory: a
    # broken library for jit, or a broken /dev/shm, must not look like a broken table.
    "jit": "off",
    "max_parallel_workers_per_gather": "0",
    # An error ends a statement, not the session.
    "exit_on_error": "off",
    # A commit whose wait for a standby was cancelled is answered behind a warning.
    "client_min_messages": "warning",
}

# Settings that the audit judges, and whose value in a session may differ from the
# server's: each session of the load shows its own while it commits (PostgreSQL 18
# manual, 19.5 and 19.17).
OF_A_SESSION = ("synchronous_commit", "zero_damaged_pages", "ignore_checksum_failure")

# For a session that reads the table itself: an index may hold rows that the heap lost.
HEAP: Mapping[str, str] = {
    "enable_seqscan": "on",
    "enable_indexscan": "off",
    "enable_indexonlyscan": "off",
    "enable_bitmapscan": "off",
}

# For reading the primary key, in the same transaction.
INDEX: Mapping[str, str] = {
    "enable_seqscan": "off",
    "enable_indexscan": "on",
    "enable_indexonlyscan": "on",
    "enable_bitmapscan": "off",
}

# What must be in effect while the table and its index are read.
SNAPSHOT: Mapping[str, str] = {
    "transaction_isolation": "repeatable read",
    "transaction_read_only": "on",
}
