"""Rules for PostgreSQL."""

from __future__ import annotations

from dbcheck.audit.rule import Harm, Rule
from dbcheck.core.depth import Depth

_ON = frozenset({"on"})
_OFF = frozenset({"off"})

RULES = (
    Rule(
        id="pg-fsync",
        fact="fsync",
        safe=_ON,
        why="With fsync off nothing is flushed: a power cut may lose every commit and"
        " corrupt the cluster; set fsync = on.",
        source="PostgreSQL 18 manual, 19.5 Write Ahead Log, fsync",
        harm=Harm(Depth.OS, everything=True),
    ),
    Rule(
        id="pg-synchronous-commit",
        fact="synchronous_commit",
        # remote_write waits for the local flush too, and only then for a standby.
        safe=frozenset({"on", "local", "remote_write", "remote_apply"}),
        why="With synchronous_commit off a commit is acknowledged before its log record"
        " is flushed, up to three times wal_writer_delay later; set it to on for this"
        " account and database.",
        source="PostgreSQL 18 manual, 19.5 Write Ahead Log, synchronous_commit, and"
        " 28.4 Asynchronous Commit",
        harm=Harm(Depth.PROCESS, end=True),
    ),
    Rule(
        id="pg-full-page-writes",
        fact="full_page_writes",
        safe=_ON,
        why="With full_page_writes off a page that the cut tore in two cannot be"
        " repaired in recovery; set full_page_writes = on unless the storage writes"
        " whole pages or none.",
        source="PostgreSQL 18 manual, 19.5 Write Ahead Log, full_page_writes",
        harm=Harm(Depth.OS, tears=True),
    ),
    Rule(
        id="pg-data-sync-retry",
        fact="data_sync_retry",
        safe=_OFF,
        why="With data_sync_retry on a failed flush is tried again although the kernel"
        " may have dropped the data, so a checkpoint can count what is not on the"
        " drive; set data_sync_retry = off.",
        source="PostgreSQL 18 manual, 19.14 Error Handling, data_sync_retry",
        harm=Harm(),
    ),
    Rule(
        id="pg-zero-damaged-pages",
        fact="zero_damaged_pages",
        safe=_OFF,
        why="With zero_damaged_pages on a damaged page is read as empty, so its rows"
        " vanish without an error; set zero_damaged_pages = off.",
        source="PostgreSQL 18 manual, 19.17 Developer Options, zero_damaged_pages",
        harm=Harm(hides=True),
    ),
    Rule(
        id="pg-ignore-checksum-failure",
        fact="ignore_checksum_failure",
        safe=_OFF,
        why="With ignore_checksum_failure on a damaged page passes for a good one; set"
        " ignore_checksum_failure = off.",
        source="PostgreSQL 18 manual, 19.17 Developer Options, ignore_checksum_failure",
        harm=Harm(hides=True),
    ),
    Rule(
        id="pg-ignore-invalid-pages",
        fact="ignore_invalid_pages",
        safe=_OFF,
        why="With ignore_invalid_pages on recovery skips log records whose pages are"
        " missing, and loses them; set ignore_invalid_pages = off.",
        source="PostgreSQL 18 manual, 19.17 Developer Options, ignore_invalid_pages",
        harm=Harm(),
    ),
)
