"""Evidence from a server's own log, read on its host or over SQL."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from dbcheck.judge.case import Case
from dbcheck.judge.item import Item, ItemId, Standing
from dbcheck.model.host import LogTail
from dbcheck.server_log import startlog

IS_SHARED = "it has starts of another server in it"


def server_log(case: Case) -> Item | None:
    """Judge what the server's log on its host shows; None if it was not read."""
    found = _on_host(case)
    return None if found is None else crash_item(ItemId.SERVER_LOG, *found)


def server_log_sql(case: Case) -> Item | None:
    """Judge the server's log as read over SQL; None if it cannot be read so."""
    found = _over_sql(case)
    return None if found is None else crash_item(ItemId.SERVER_LOG_SQL, *found)


def _on_host(case: Case) -> tuple[LogTail, Mapping[str, str]] | None:
    """Return the log on the host of the node that was cut, and that node's log_names.

    None if it was not read.
    """
    if case.host is None or case.host.log is None:
        return None
    return case.host.log, case.tested.facts.log_names


def _over_sql(case: Case) -> tuple[LogTail, Mapping[str, str]] | None:
    """Return the same of the log of the node that was read, as read over SQL."""
    if case.after.log is None:
        return None
    names = case.manifest.nodes[case.after.reader_name].facts.log_names
    return LogTail(case.after.log, truncated=False, rewound=False), names


def _own_logs(case: Case) -> Iterator[LogTail]:
    """Yield the logs that were read in which no other server is seen to start."""
    for found in (_on_host(case), _over_sql(case)):
        if found is not None and not startlog.other_server(found[0].text, found[1]):
            yield found[0]


def crash_item(which: ItemId, log: LogTail, names: Mapping[str, str]) -> Item:
    """Judge what a log shows since the preflight.

    names: see ServerFacts.log_names.
    Where more was logged than was read, a shutdown may stand in the rest; where a log
    does not continue what it was, its lines may be older than the load.
    """
    standing, reason = crash_in(log)
    if strange := startlog.other_server(log.text, names):
        standing, reason = Standing.NOT_OBSERVABLE, f"{IS_SHARED} ({strange})"
    required = standing in (Standing.PRESENT, Standing.CONTRADICTED)
    return Item(which, standing, reason, required)


def crash_in(log: LogTail) -> tuple[Standing, str]:
    """Return whether *log* shows a crash, and what in it shows that, or a shutdown."""
    text = log.text
    if log.rewound:
        return Standing.NOT_OBSERVABLE, (
            "it does not continue what was there before the load, so its lines may be"
            " older"
        )
    if found := startlog.was_shut_down(text):
        return Standing.CONTRADICTED, f"it says {found!r}: it was shut down, not cut"
    if log.truncated:
        return Standing.NOT_OBSERVABLE, (
            "more was logged since the preflight than is read"
        )
    if found := startlog.was_cut(text):
        return Standing.PRESENT, f"it says {found!r}: crash recovery"
    return Standing.NOT_OBSERVABLE, "it shows neither a crash nor a shutdown"


def complaints(case: Case) -> Item | None:
    """Show which damage the log names since the last start; None if it names none.

    It decides nothing: it may be about another table, or about a page that recovery
    then repaired, and each row was read.  Where none was, absence.py quotes the log.
    """
    if case.after.failure:
        return None
    for log in _own_logs(case):
        if log.rewound:
            continue
        if lines := startlog.complaints(startlog.since_start(log.text)):
            reason = f"since the start it says: {lines[0]}"
            return Item(ItemId.LOG_COMPLAINTS, Standing.ABSENT, reason, required=False)
    return None


def log_replayed(case: Case) -> Item | None:
    """Judge how much of its redo log the server replayed, None if no log shows it."""
    return next(filter(None, map(replayed, _own_logs(case))), None)


def replayed(log: LogTail) -> Item | None:
    """Judge how much of its redo log the server replayed, None if *log* lacks that.

    It replays what was written since the last checkpoint: only that was at risk in
    the redo log alone.  Of several recoveries the last counts that came to its end.
    """
    if log.rewound or log.truncated:
        return None
    text = log.text
    for first, last, base in _REPLAYS:
        ends = list(last.finditer(text))
        begins = first.findall(text, 0, ends[-1].start()) if ends else []
        if not begins:
            continue
        size = _position(ends[-1][1], base) - _position(begins[-1], base)
        if size >= 0:
            standing = Standing.PRESENT if size else Standing.ABSENT
            reason = f"recovery replayed {size:,} bytes written since the checkpoint"
            return Item(ItemId.REPLAYED, standing, reason, required=False)
    if _NO_REPLAY in text and not any(last.search(text) for _, last, _ in _REPLAYS):
        reason = (
            f"recovery found nothing to replay ({_NO_REPLAY!r}): a checkpoint came "
            "after the last commit, as a shutdown makes one"
        )
        return Item(ItemId.REPLAYED, Standing.ABSENT, reason, required=True)
    return None


_NO_REPLAY = "redo is not required"  # PostgreSQL: nothing follows the last checkpoint
# Where recovery began and ended, as numbers of 64 bits: PostgreSQL in hexadecimal
# halves, InnoDB in bytes.
_HALVES = r"([0-9A-F]{1,8}/[0-9A-F]{1,8})(?![0-9A-F])"
_BYTES = r"([0-9]{1,20})(?![0-9])"
_REPLAYS = (
    (
        re.compile("redo starts at " + _HALVES),
        re.compile("redo done at " + _HALVES),
        16,
    ),
    (
        re.compile("crash recovery from checkpoint LSN=" + _BYTES),
        re.compile("End of log at LSN=" + _BYTES),
        10,
    ),
    (
        re.compile("whereas checkpoint_lsn = " + _BYTES),
        re.compile("scanned up to log sequence number " + _BYTES),
        10,
    ),
)


def _position(text: str, base: int) -> int:
    high, slash, low = text.rpartition("/")
    return (int(high, base) << 32) + int(low, base) if slash else int(low, base)
