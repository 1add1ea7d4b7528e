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
    """Judge what the server's log on its host shows; None if it was not read."""
    found = _find_log_on_host(case)
    return None if found is None else make_crash_item(ItemId.SERVER_LOG, *found)


def judge_server_log_over_sql(case: Case) -> Item | None:
    """Judge the server's log as read over SQL; None if it cannot be read so."""
    found = _find_log_over_sql(case)
    return None if found is None else make_crash_item(ItemId.SERVER_LOG_SQL, *found)


def _find_log_on_host(case: Case) -> tuple[LogTail, Mapping[str, str]] | None:
    """Return the log on the host of the node that was cut, and that node's log_names.

    None if it was not read.
    """
    if case.host is None or case.host.log is None:
        return None
    return case.host.log, case.tested.facts.log_names


def _find_log_over_sql(case: Case) -> tuple[LogTail, Mapping[str, str]] | None:
    """Return the same of the log of the node that was read, as read over SQL."""
    if case.after.log is None:
        return None
    names = case.manifest.nodes[case.after.reader_name].facts.log_names
    return LogTail(case.after.log, truncated=False, rewound=False), names


def _list_own_logs(case: Case) -> Iterator[LogTail]:
    """Yield the logs that were read in which no other server is seen to start."""
    for found in (_find_log_on_host(case), _find_log_over_sql(case)):
        if found is not None and not startlog.find_other_server(
            found[0].text, found[1]
        ):
            yield found[0]


def make_crash_item(which: ItemId, log: LogTail, names: Mapping[str, str]) -> Item:
    """Judge what a log shows since the preflight.

    names: see ServerFacts.log_names.
    Where more was logged than was read, a shutdown may stand in the rest; where a log
    does not continue what it was, its lines may be older than the load.
    """
    status, reason = judge_crash_in_log(log)
    if strange := startlog.find_other_server(log.text, names):
        status, reason = Status.NOT_OBSERVABLE, f"{IS_SHARED} ({strange})"
    required = status in (Status.PRESENT, Status.CONTRADICTED)
    return Item(which, status, reason, required)


def judge_crash_in_log(log: LogTail) -> tuple[Status, str]:
    """Judge whether *log* shows a crash, or a shutdown; name the line that does."""
    text = log.text
    if log.rewound:
        return Status.NOT_OBSERVABLE, (
            "it does not continue what was there before the load, so its lines may be"
            " older"
        )
    if found := startlog.find_shutdown(text):
        return Status.CONTRADICTED, f"it says {found!r}: it was shut down, not cut"
    if log.truncated:
        return Status.NOT_OBSERVABLE, (
            "more was logged since the preflight than is read"
        )
    if found := startlog.find_sign_of_crash(text):
        return Status.PRESENT, f"it says {found!r}: crash recovery"
    return Status.NOT_OBSERVABLE, "it shows neither a crash nor a shutdown"


def judge_complaints(case: Case) -> Item | None:
    """Show which damage the log names since the last start; None if it names none.

    It decides nothing: it may be about another table, or about a page that recovery
    then repaired, and each row was read.  Where none was, absence.py quotes the log.
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
        size = _parse_log_position(ends[-1][1], base) - _parse_log_position(
            begins[-1], base
        )
        if size >= 0:
            status = Status.PRESENT if size else Status.ABSENT
            reason = f"recovery replayed {size:,} bytes written since the checkpoint"
            return Item(ItemId.REPLAYED, status, reason, required=False)
    if _NO_REPLAY in text and not any(last.search(text) for _, last, _ in _REPLAYS):
        reason = (
            f"recovery found nothing to replay ({_NO_REPLAY!r}): a checkpoint came "
            "after the last commit, as a shutdown makes one"
        )
        return Item(ItemId.REPLAYED, Status.ABSENT, reason, required=True)
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


def _parse_log_position(text: str, base: int) -> int:
    high, slash, low = text.rpartition("/")
    return (int(high, base) << 32) + int(low, base) if slash else int(low, base)


_DARK = (
    "it may have been shut down before that, unseen, if its network failed first; a "
    "crash canary or its log would show that"
)
# InnoDB's setting, and its value under which a shutdown writes no pages: the next start
# recovers, and logs what it logs after a crash (MariaDB 10.11 srv0start.cc,
# innodb_shutdown; MySQL 9.7 Reference Manual, 17.14, innodb_fast_shutdown).
_FAST_SHUTDOWN, _LIKE_A_CRASH = "innodb_fast_shutdown", "2"
_BY_LOG_ALONE = (
    "its log shows recovery from a crash, and so it does after a shutdown with"
    f" {_FAST_SHUTDOWN} = {_LIKE_A_CRASH}, which no look showed; a crash canary would"
    " show which it was"
)
_OF_THE_WRITER = "the crash canary is the writer's, and another node was read"
_NO_ROW = (
    "the crash canary is gone, but so is every row of this run: a copy of the data from"
    " before it has neither"
)


@dataclass(frozen=True, slots=True)
class Ended:
    """Facts about the end of the server.

    restarted:  another server process answers; None if that is not known.  PostgreSQL's
                main process may outlive a crash of the others, and recover from it.
    canary:     the crash canary's row is still there; None if unknown.
    by_session: the row stays also if the canary's session ended before the cut.
    unflushed:  the server never flushes the canary: where its host loses power soon
                after an orderly shutdown, the row is gone as after a crash.
    no_canary:  why there was no crash canary, "" if there was one.
    logged:     a log of the server shows recovery from a crash.
    innodb:     a shutdown with innodb_fast_shutdown = 2 leaves the same log.
    fast_seen:  when that setting was seen to be 2, "" if it never was.
    exact:      the lab cut the power itself.
    seen_off:   the switch read from its device that the power was off.
    recorded:   what the host recorded of an orderly shutdown of its own.
    cache_lost: what was written on the host without a flush is lost.  Not of a cut of
                drives alone: a server that was shut down before it leaves the same.
    drive_only: the server was to go on while its drives lost their power.
    unheard: it is a standby's, which no session is connected to: what they saw is of
                the writer.
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
    held = load.canary_held if load else True
    restarted = _has_restarted(case)
    # A server that never stopped runs on its own data.
    of_a_copy = case.none_there and restarted is not False
    logs = filter(None, (judge_server_log(case), judge_server_log_over_sql(case)))
    cut = case.cut
    least = case.shallowest.depth if case.shallowest else None
    return Ended(
        restarted=restarted,
        canary=_read_canary(case, held=held, of_a_copy=of_a_copy),
        by_session=family.has_session_canary,
        unflushed=case.writer.facts.product == Product.MYSQL,
        no_canary=(_OF_THE_WRITER if case.promoted else "")
        or manifest.no_canary
        or explain_lost_crash_canary(case)
        or ("" if held else "the canary's session ended before the cut")
        or (_NO_ROW if of_a_copy and case.after.canary is False else ""),
        logged=any(item.status is Status.PRESENT for item in logs),
        innodb=family.has_innodb,
        fast_seen=_find_fast_shutdown_setting(case),
        exact=cut is not None and cut.exact_us is not None,
        seen_off=cut is not None and cut.off_seen and _stayed_off(case),
        recorded=(case.host.shut_down or "") if case.host else "",
        cache_lost=least in (Depth.OS, Depth.DRIVE) and not case.drive_only,
        drive_only=case.drive_only,
        unheard=case.tested_name != manifest.writer_name,
    )


def _has_restarted(case: Case) -> bool | None:
    """Return True if the server has another start time than before the cut.

    None if none answered, or if the node that was read kept its power.
    """
    before, after = case.tested.facts, case.after.facts
    return None if after is None or case.spared else is_restarted(before, after)


def _read_canary(case: Case, *, held: bool, of_a_copy: bool) -> bool | None:
    """Return True if the canary's row is there, None if that shows nothing.

    A promotion empties its table as well.  of_a_copy: the data may be from before it.
    """
    found = case.after.canary
    if case.promoted or (
        found is False and (of_a_copy or explain_lost_crash_canary(case))
    ):
        return None
    return found if held or found is False else None


def _find_fast_shutdown_setting(case: Case) -> str:
    """Return the time at which innodb_fast_shutdown was 2, "" if it never was.

    While the load ran, and just before the cut, only the writer was asked.
    """
    load, after = case.load, case.after.facts
    found = [("before the load", case.tested.facts.settings)]
    if load is not None and case.tested_name == case.manifest.writer_name:
        seen = load.settings_seen(find_cut_us(case))
        found += [("while the load ran", dict([one])) for one in seen]
        found.append(("just before the cut", load.settings or {}))
    if after is not None:
        found.append(("after the cut", after.settings))
    at_2 = (when for when, read in found if read.get(_FAST_SHUTDOWN) == _LIKE_A_CRASH)
    return next(at_2, "")


def _stayed_off(case: Case) -> bool:
    """Return True if the power was off until it was restored, or is off for good."""
    if case.off_s is not None:
        return True
    promotion = case.after.promotion
    looks = promotion.old if promotion and case.spared else ()
    return bool(looks) and all(off.state is PowerState.OFF for off in looks)


def judge_not_shut_down(case: Case) -> Item:
    """Judge whether the server ended without an orderly shutdown.

    A failover claims nothing of how the former server ended, so needs none of it.
    """
    found = decide_how_server_ended(case)
    status, reason = judge_end(case.load, found)
    required = case.cut_class is not CutClass.FAILOVER
    if not required and status is Status.CONTRADICTED and found.restarted:
        status = Status.ABSENT  # a failover may begin with that
    return Item(ItemId.NOT_SHUT_DOWN, status, reason, required)


def judge_end(load: LoadRecord | None, ended: Ended) -> tuple[Status, str]:
    """Judge whether a server that *ended* so was not shut down; return the reason too.

    Silence alone proves nothing: where the network fails first, a server shuts down
    unseen.
    """
    if against := _find_evidence_against_cut(None if ended.unheard else load, ended):
        return Status.CONTRADICTED, against
    if ended.unheard:
        load = None
    silent = load is not None and load.gone is Gone.SILENT
    if shown := _find_evidence_of_crash(ended, silent=silent):
        return Status.PRESENT, shown
    if ended.seems_crashed:
        return Status.ASSUMED, _BY_LOG_ALONE
    if silent and (lost := _find_evidence_of_power_loss(ended)):
        return Status.ASSUMED, f"it fell silent, and {lost}; {_DARK}"
    return Status.NOT_OBSERVABLE, _explain_unknown_end(load, ended)


def _find_evidence_against_cut(load: LoadRecord | None, ended: Ended) -> str:
    """Return the evidence that this server's power was not cut, "" if none."""
    if ended.outlived_crash:
        return ""
    if ended.restarted is False:
        return "its main process never stopped: its start time did not change"
    # A server whose drives are gone may crash, and say so, before it is killed.
    by_drives = ended.drive_only and ended.crashed
    if load is not None and load.farewells and not by_drives:
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
    """Return the evidence that it was not shut down, "" if there is none."""
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
    """Return the evidence that the host lost its power at any time, "" if none."""
    if ended.cache_lost:
        return "its host lost data that an orderly shutdown would have written"
    if ended.seen_off:
        return "the switch saw the power off"
    return ""


def _explain_unknown_end(load: LoadRecord | None, ended: Ended) -> str:
    """Explain why it is not known how the server ended."""
    why = ended.no_canary or "no crash canary and no log shows how it ended"
    if ended.logged:
        why = (
            f"{_FAST_SHUTDOWN} was {_LIKE_A_CRASH} {ended.fast_seen}: a shutdown then"
            f" leaves the log of a crash; {ended.no_canary or 'no canary shows more'}"
        )
    if ended.unheard:
        return f"no session is connected to a standby; {why}"
    if load is None:
        return f"the client was lost, and with it how the load ended; {why}"
    if load.gone is Gone.SILENT:
        return (
            "it fell silent, as it also does if its network fails first and it then"
            f" shuts down; {why}"
        )
    return (
        "its connections were closed, as a shutdown does; a power cut leaves silence;"
        f" {why}"
    )
