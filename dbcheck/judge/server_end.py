"""Decides how the server ended, with evidence from its own log."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from dbcheck.judge.case import Case
from dbcheck.judge.cutmoment import find_cut_us
from dbcheck.judge.item import Item, ItemId, Status
from dbcheck.judge.watched import explain_lost_crash_canary
from dbcheck.model.cut import CutClass, Gone, PowerState
from dbcheck.model.depth import Depth
from dbcheck.model.family import FAMILIES
from dbcheck.model.host import LogTail
from dbcheck.model.records import LoadRecord
from dbcheck.model.server import is_restarted
from dbcheck.server_log import Product, startlog

IS_SHARED = "it has starts of another server in it"


def judge_server_log(case: Case) -> Item | None:
    """Judge what the server's log on its host shows; None if the log was not read."""
    log_and_names = _find_log_on_host(case)
    return (
        None
        if log_and_names is None
        else make_crash_item(ItemId.SERVER_LOG, *log_and_names)
    )


def judge_server_log_over_sql(case: Case) -> Item | None:
    """Judge the server's log as read over SQL; None if it cannot be read so."""
    log_and_names = _find_log_over_sql(case)
    return (
        None
        if log_and_names is None
        else make_crash_item(ItemId.SERVER_LOG_SQL, *log_and_names)
    )


def _find_log_on_host(case: Case) -> tuple[LogTail, Mapping[str, str]] | None:
    """Return the log on the host of the node that was cut, and that node's log_names.

    None if the log was not read.
    """
    if case.host is None or case.host.log is None:
        return None
    return case.host.log, case.tested.facts.log_names


def _find_log_over_sql(case: Case) -> tuple[LogTail, Mapping[str, str]] | None:
    """Return the log of the node that was read, as read over SQL, and its log_names.

    None if the log was not read.
    """
    if case.after.log is None:
        return None
    names = case.manifest.nodes[case.after.reader_name].facts.log_names
    return LogTail(case.after.log, truncated=False, rewound=False), names


def _list_own_logs(case: Case) -> Iterator[LogTail]:
    """Yield those logs that were read and that show no start of another server."""
    for log_and_names in (_find_log_on_host(case), _find_log_over_sql(case)):
        if log_and_names is not None and not startlog.find_other_server(
            log_and_names[0].text, log_and_names[1]
        ):
            yield log_and_names[0]


def make_crash_item(item_id: ItemId, log: LogTail, names: Mapping[str, str]) -> Item:
    """Judge what a log shows since the preflight.

    names: see ServerFacts.log_names.
    """
    status, reason = judge_crash_in_log(log)
    if other_start := startlog.find_other_server(log.text, names):
        status, reason = Status.NOT_OBSERVABLE, f"{IS_SHARED} ({other_start})"
    required = status in (Status.PRESENT, Status.CONTRADICTED)
    return Item(item_id, status, reason, required)


def judge_crash_in_log(log: LogTail) -> tuple[Status, str]:
    """Judge whether *log* shows a crash or a shutdown; name the line that shows it.

    A truncated log may have a shutdown in the part that was not read.  The lines of a
    log that does not continue the earlier one may be older than the load.
    """
    text = log.text
    if log.rewound:
        return Status.NOT_OBSERVABLE, (
            "it does not continue what was there before the load, so its lines may be"
            " older"
        )
    if line := startlog.find_shutdown(text):
        return Status.CONTRADICTED, f"it says {line!r}: it was shut down, not cut"
    if log.truncated:
        return Status.NOT_OBSERVABLE, (
            "more was logged since the preflight than is read"
        )
    if line := startlog.find_sign_of_crash(text):
        return Status.PRESENT, f"it says {line!r}: crash recovery"
    return Status.NOT_OBSERVABLE, "it shows neither a crash nor a shutdown"


def judge_complaints(case: Case) -> Item | None:
    """Show which damage the log names since the last start; None if it names none.

    The item decides nothing: the damage may be in another table, or in a page that
    recovery then repaired, and each row was read.  If the server does not come back,
    absence.py quotes the log.
    """
    if case.after.failure:
        return None
    for log in _list_own_logs(case):
        if log.rewound:
            continue
        if lines := startlog.find_lines_about_damage(
            startlog.read_since_last_start(log.text)
        ):
            reason = f"since the start it says: {lines[0]}"
            return Item(ItemId.LOG_COMPLAINTS, Status.ABSENT, reason, required=False)
    return None


def judge_log_replayed(case: Case) -> Item | None:
    """Judge how much of its redo log the server replayed, None if no log shows it."""
    return next(filter(None, map(judge_replay_in_log, _list_own_logs(case))), None)


def judge_replay_in_log(log: LogTail) -> Item | None:
    """Judge how much of its redo log the server replayed, None if *log* lacks that.

    The server replays what was written since the last checkpoint: only those writes
    were at risk in the redo log alone.  The last recovery that was completed counts.
    """
    if log.rewound or log.truncated:
        return None
    text = log.text
    for begin_pattern, end_pattern, base in _REPLAYS:
        ends = list(end_pattern.finditer(text))
        begins = begin_pattern.findall(text, 0, ends[-1].start()) if ends else []
        if not begins:
            continue
        size = _parse_log_position(ends[-1][1], base) - _parse_log_position(
            begins[-1], base
        )
        if size >= 0:
            status = Status.PRESENT if size else Status.ABSENT
            reason = f"recovery replayed {size:,} bytes written since the checkpoint"
            return Item(ItemId.REPLAYED, status, reason, required=False)
    if _NOTHING_TO_REPLAY in text and not any(
        end_pattern.search(text) for _, end_pattern, _ in _REPLAYS
    ):
        reason = (
            f"recovery found nothing to replay ({_NOTHING_TO_REPLAY!r}): a checkpoint"
            " came after the last commit, as a shutdown makes one"
        )
        return Item(ItemId.REPLAYED, Status.ABSENT, reason, required=True)
    return None


# PostgreSQL logs this if nothing follows the last checkpoint.
_NOTHING_TO_REPLAY = "redo is not required"
# Where recovery began and ended, as numbers of 64 bits: PostgreSQL in hexadecimal
# halves, InnoDB in bytes.
_POSTGRESQL_POSITION = r"([0-9A-F]{1,8}/[0-9A-F]{1,8})(?![0-9A-F])"
_INNODB_POSITION = r"([0-9]{1,20})(?![0-9])"
_REPLAYS = (
    (
        re.compile("redo starts at " + _POSTGRESQL_POSITION),
        re.compile("redo done at " + _POSTGRESQL_POSITION),
        16,
    ),
    (
        re.compile("crash recovery from checkpoint LSN=" + _INNODB_POSITION),
        re.compile("End of log at LSN=" + _INNODB_POSITION),
        10,
    ),
    (
        re.compile("whereas checkpoint_lsn = " + _INNODB_POSITION),
        re.compile("scanned up to log sequence number " + _INNODB_POSITION),
        10,
    ),
)


def _parse_log_position(text: str, base: int) -> int:
    high, slash, low = text.rpartition("/")
    return (int(high, base) << 32) + int(low, base) if slash else int(low, base)


_MAY_BE_SHUT_DOWN_UNSEEN = (
    "it may have been shut down before that, unseen, if its network failed first; a "
    "crash canary or its log would show that"
)
# InnoDB's setting, and its value under which a shutdown writes no pages: the next start
# recovers, and logs what it logs after a crash (MariaDB 10.11 srv0start.cc,
# innodb_shutdown; MySQL 9.7 Reference Manual, 17.14, innodb_fast_shutdown).
_FAST_SHUTDOWN, _LIKE_A_CRASH = "innodb_fast_shutdown", "2"
_CRASH_IN_LOG_ALONE = (
    "its log shows recovery from a crash, and so it does after a shutdown with"
    f" {_FAST_SHUTDOWN} = {_LIKE_A_CRASH}, which no look showed; a crash canary would"
    " show which it was"
)
_CANARY_ON_OTHER_NODE = "the crash canary is the writer's, and another node was read"
_CANARY_GONE_WITH_ROWS = (
    "the crash canary is gone, but so is every row of this run: a copy of the data from"
    " before it has neither"
)


@dataclass(frozen=True, slots=True)
class Ended:
    """Facts about the end of the server.

    restarted:  another server process answers; None if that is not known.  PostgreSQL's
                main process may outlive a crash of the others, and recover from it.
    canary:     the crash canary's row is still there; None if unknown.
    by_session: the row is also kept if the canary's session ended before the cut.
    unflushed:  the server never flushes the canary: if its host loses power soon after
                an orderly shutdown, the row is gone as after a crash.
    no_canary:  why there was no crash canary, "" if there was one.
    logged:     a log of the server shows recovery from a crash.
    innodb:     a shutdown with innodb_fast_shutdown = 2 leaves the same log.
    fast_seen:  when innodb_fast_shutdown was seen to be 2, "" if it never was.
    exact:      the lab cut the power itself.
    seen_off:   the switch read from its device that the power was off.
    recorded:   what the host recorded of an orderly shutdown of its own.
    cache_lost: what was written on the host without a flush is lost.  Always False for
                a cut of drives alone: such data are also lost if the server was shut
                down before the cut.
    drive_only: the drives alone were to lose their power.
    unheard:    the server is a standby's.  No session is connected to it: what the
                sessions saw is about the writer.
    """

    restarted: bool | None = None
    canary: bool | None = None
    by_session: bool = False
    unflushed: bool = False
    no_canary: str = ""
    logged: bool = False
    innodb: bool = False
    fast_seen: str = ""
    exact: bool = False
    seen_off: bool = False
    recorded: str = ""
    cache_lost: bool = False
    drive_only: bool = False
    unheard: bool = False

    @property
    def crashed(self) -> bool:
        """True if the server itself shows that it recovered from a crash."""
        return self.canary is False or (self.logged and not self.innodb)

    @property
    def seems_crashed(self) -> bool:
        """True if its log shows recovery, and innodb_fast_shutdown was never 2."""
        return self.logged and not self.fast_seen

    @property
    def outlived_crash(self) -> bool:
        """True if its main process ran on while the others crashed, and recovered."""
        return self.restarted is False and self.crashed and not self.innodb


def decide_how_server_ended(case: Case) -> Ended:
    """Collect the facts about the end of the server from the records of a cycle."""
    manifest, load = case.manifest, case.load
    family = FAMILIES[manifest.family]
    canary_held = load.canary_held if load else True
    restarted = _has_restarted(case)
    # A server that never stopped runs on its own data.
    may_be_copy = case.none_there and restarted is not False
    logs = filter(None, (judge_server_log(case), judge_server_log_over_sql(case)))
    cut = case.cut
    shallowest = case.shallowest.depth if case.shallowest else None
    return Ended(
        restarted=restarted,
        canary=_read_canary(case, canary_held=canary_held, may_be_copy=may_be_copy),
        by_session=family.has_session_canary,
        unflushed=case.writer.facts.product == Product.MYSQL,
        no_canary=(_CANARY_ON_OTHER_NODE if case.promoted else "")
        or manifest.no_canary
        or explain_lost_crash_canary(case)
        or ("" if canary_held else "the canary's session ended before the cut")
        or (
            _CANARY_GONE_WITH_ROWS if may_be_copy and case.after.canary is False else ""
        ),
        logged=any(item.status is Status.PRESENT for item in logs),
        innodb=family.has_innodb,
        fast_seen=_find_fast_shutdown_setting(case),
        exact=cut is not None and cut.exact_us is not None,
        seen_off=cut is not None and cut.off_seen and _stayed_off(case),
        recorded=(case.host.shut_down or "") if case.host else "",
        cache_lost=shallowest in (Depth.OS, Depth.DRIVE) and not case.drive_only,
        drive_only=case.drive_only,
        unheard=case.tested_name != manifest.writer_name,
    )


def _has_restarted(case: Case) -> bool | None:
    """Return True if the server has another start time than before the cut.

    None if no server answered, or if the node that was read kept its power.
    """
    before, after = case.tested.facts, case.after.facts
    return (
        None if after is None or case.reader_kept_power else is_restarted(before, after)
    )


def _read_canary(case: Case, *, canary_held: bool, may_be_copy: bool) -> bool | None:
    """Return True if the canary's row is there, None if that shows nothing.

    A promotion empties the canary's table as well.
    may_be_copy: the data may be a copy from before the canary was planted.
    """
    row_found = case.after.canary
    if case.promoted or (
        row_found is False and (may_be_copy or explain_lost_crash_canary(case))
    ):
        return None
    return row_found if canary_held or row_found is False else None


def _find_fast_shutdown_setting(case: Case) -> str:
    """Return the time at which innodb_fast_shutdown was 2, "" if it never was.

    Only the writer was asked while the load ran and just before the cut.
    """
    load, after = case.load, case.after.facts
    readings = [("before the load", case.tested.facts.settings)]
    if load is not None and case.tested_name == case.manifest.writer_name:
        changes = load.settings_seen(find_cut_us(case))
        readings += [("while the load ran", dict([change])) for change in changes]
        readings.append(("just before the cut", load.settings or {}))
    if after is not None:
        readings.append(("after the cut", after.settings))
    times = (
        when
        for when, settings in readings
        if settings.get(_FAST_SHUTDOWN) == _LIKE_A_CRASH
    )
    return next(times, "")


def _stayed_off(case: Case) -> bool:
    """Return True if the power was off until it was restored, or is off for good."""
    if case.off_s is not None:
        return True
    promotion = case.after.promotion
    looks = promotion.old if promotion and case.reader_kept_power else ()
    return bool(looks) and all(off.state is PowerState.OFF for off in looks)


def judge_not_shut_down(case: Case) -> Item:
    """Judge whether the server ended without an orderly shutdown.

    A failover claims nothing about the end of the former server, so its PASS does not
    require this item.
    """
    ended = decide_how_server_ended(case)
    status, reason = judge_end(case.load, ended)
    required = case.cut_class is not CutClass.FAILOVER
    if not required and status is Status.CONTRADICTED and ended.restarted:
        status = Status.ABSENT  # a failover may begin with an orderly shutdown
    return Item(ItemId.NOT_SHUT_DOWN, status, reason, required)


def judge_end(load: LoadRecord | None, ended: Ended) -> tuple[Status, str]:
    """Judge from the facts *ended* whether the server was not shut down, and say why.

    Silence alone proves nothing: if the network fails first, no session sees the server
    shut down.
    """
    if not_cut := _find_evidence_against_cut(None if ended.unheard else load, ended):
        return Status.CONTRADICTED, not_cut
    if ended.unheard:
        load = None
    silent = load is not None and load.gone is Gone.SILENT
    if crash := _find_evidence_of_crash(ended, silent=silent):
        return Status.PRESENT, crash
    if ended.seems_crashed:
        return Status.ASSUMED, _CRASH_IN_LOG_ALONE
    if silent and (power_loss := _find_evidence_of_power_loss(ended)):
        return (
            Status.ASSUMED,
            f"it fell silent, and {power_loss}; {_MAY_BE_SHUT_DOWN_UNSEEN}",
        )
    return Status.NOT_OBSERVABLE, _explain_unknown_end(load, ended)


def _find_evidence_against_cut(load: LoadRecord | None, ended: Ended) -> str:
    """Return the evidence that this server's power was not cut, "" if none."""
    if ended.outlived_crash:
        return ""
    if ended.restarted is False:
        return "its main process never stopped: its start time did not change"
    # A server whose drives are gone may crash, and notify its sessions, before it is
    # killed.
    crashed_without_drives = ended.drive_only and ended.crashed
    if load is not None and load.farewells and not crashed_without_drives:
        return (
            f"the server notified a session: {load.farewells[0]!r}; it ended by"
            " itself, not by a power cut"
        )
    if ended.recorded:
        return f"the host shut down in an orderly way: {ended.recorded}"
    if ended.canary is not True:
        return ""
    if not ended.by_session:
        return (
            "the canary row that a crash removes is still there:"
            " it was shut down, not cut"
        )
    if ended.exact:
        return ""
    if ended.logged:
        return (
            "its log shows recovery from a crash, and the canary row that a crash"
            f" removes is still there: it was shut down with {_FAST_SHUTDOWN} ="
            f" {_LIKE_A_CRASH}, after which it recovers as well, or the connection that"
            " held the canary broke before a crash"
        )
    return (
        "the canary row that a crash removes is still there: it was shut down, not cut,"
        " or the connection that held the canary broke before the cut"
    )


def _find_evidence_of_crash(ended: Ended, *, silent: bool) -> str:
    """Return the evidence that the server was not shut down, "" if there is none."""
    if ended.outlived_crash:
        return "it recovered from a crash under the main process that it had before"
    if ended.canary is False and (silent or not ended.unflushed):
        return "recovery from a crash removed the canary row"
    if ended.logged and not ended.innodb:
        return "the server's own log shows recovery from a crash"
    if ended.exact:
        return "the lab cut its power"
    return ""


def _find_evidence_of_power_loss(ended: Ended) -> str:
    """Return the evidence that the host lost its power at some time, "" if none."""
    if ended.cache_lost:
        return "its host lost data that an orderly shutdown would have written"
    if ended.seen_off:
        return "the switch saw the power off"
    return ""


def _explain_unknown_end(load: LoadRecord | None, ended: Ended) -> str:
    """Explain why it is not known how the server ended."""
    no_evidence = ended.no_canary or "no crash canary and no log shows how it ended"
    if ended.logged:
        no_evidence = (
            f"{_FAST_SHUTDOWN} was {_LIKE_A_CRASH} {ended.fast_seen}: a shutdown then"
            f" leaves the log of a crash; {ended.no_canary or 'no canary shows more'}"
        )
    if ended.unheard:
        return f"no session is connected to a standby; {no_evidence}"
    if load is None:
        return f"the client was lost, and with it how the load ended; {no_evidence}"
    if load.gone is Gone.SILENT:
        return (
            "it fell silent, as it also does if its network fails first and it then"
            f" shuts down; {no_evidence}"
        )
    return (
        "its connections were closed, as a shutdown does; a power cut leaves silence;"
        f" {no_evidence}"
    )
