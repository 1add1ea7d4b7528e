"""The settings that a session of ours depends on, and the values it needs.

Each can be changed for a server, a database or an account (PostgreSQL 17 manual, 19.1
and chapter 19), so every connection sets them and reads them back; one that this
version does not have is left out.  What decides whether a commit is durable
(synchronous_commit, commit_delay, ...) is under test and never set here.
"""

from __future__ import annotations

from collections.abc import Mapping

SESSION: Mapping[str, str] = {
    # What a statement means.  Every name of ours has its schema.
    "search_path": "pg_catalog",
    "default_transaction_isolation": "read committed",
    "default_transaction_deferrable": "off",
    # An error instead of rows left out by a policy.
    "row_security": "off",
    # The table is an ordinary one; an account may have another access method.
    "default_table_access_method": "heap",
    # How long anything may take: dbcheck has limits of its own.
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
    # No other file of the installation, and no shared memory, has a part in what is
    # read: if a library for jit, or /dev/shm, is broken, the table is not.
    "jit": "off",
    "max_parallel_workers_per_gather": "0",
    # An error ends a statement, not the session.
    "exit_on_error": "off",
    # A commit whose wait for a standby was cancelled is answered behind a warning.
    "client_min_messages": "warning",
}

# What a session may have otherwise than the server, and the audit judges: each session
# of the load shows its own while it commits (PostgreSQL 18 manual, 19.5 and 19.17).
OF_A_SESSION = ("synchronous_commit", "zero_damaged_pages", "ignore_checksum_failure")

# A reader of the table itself: an index may hold what the heap lost.
HEAP: Mapping[str, str] = {
    "enable_seqscan": "on",
    "enable_indexscan": "off",
    "enable_indexonlyscan": "off",
    "enable_bitmapscan": "off",
}

# A reader of the primary key, in the same transaction.
INDEX: Mapping[str, str] = {
    "enable_seqscan": "off",
    "enable_indexscan": "on",
    "enable_indexonlyscan": "on",
    "enable_bitmapscan": "off",
}

# What must be in effect while the table is read.
SNAPSHOT: Mapping[str, str] = {
    "transaction_isolation": "repeatable read",
    "transaction_read_only": "on",
}
