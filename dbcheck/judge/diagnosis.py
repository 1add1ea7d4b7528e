"""Finds the best explanation of a run's losses, from their kinds and their shape.

A diagnosis is no part of the verdict: it tells where to look first.  But losses that
clients of the server cause are not held against the server.  Only two losses are such:
a transaction that the load left prepared and that another client decided, and an
operation without an ack that was sent to the server twice.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from dbcheck.audit.rules import Finding
from dbcheck.model.verdict import format_count
from dbcheck.rows.loss import MISSING, LossKind, Trait, list_kinds
from dbcheck.rows.lossshape import LossShape, Share
from dbcheck.rows.prepared import Decisions, Undecided
from dbcheck.rows.reconcile import Reconciliation

REPEATS = "a proxy or a driver that repeats what it got no answer to does that"
# How probable it may be, at most, that losses spare a whole class by chance.
CHANCE_MAX = 0.01
_KINDS_OF_PAGES = list_kinds(Trait.OF_PAGES)


@dataclass(frozen=True, slots=True)
class ByClients:
    """Number of losses that clients caused; the evidence, a sentence for each kind."""

    losses: int = 0
    reasons: tuple[str, ...] = ()


NOTHING = ByClients()


def count_losses_by_clients(
    found: Reconciliation | None, decisions: Decisions | None
) -> ByClients:
    """Count the losses that are not held against the server.

    decisions: of prepared transactions since the server started, by any client; None
    if the server counts none.
    """
    if found is None:
        return NOTHING
    decided = count_foreign_decisions(found.undecided, decisions)
    reasons = []
    if decided:
        reasons.append(_explain_foreign_decisions(decided, found.undecided, decisions))
    if found.unacked_repeats:
        reasons.append(_explain_repeats(found.unacked_repeats))
    return ByClients(decided + found.unacked_repeats, tuple(reasons))


def count_foreign_decisions(undecided: Undecided, decisions: Decisions | None) -> int:
    """Count the losses of transactions that another client decided.

    If the server counts decisions, no more losses than it counted are explained so.  A
    restart sets its counts to 0: a loss by a decision before it is not excused, and
    explain_by_foreign_decisions() tells the user to look for such a client.  If the
    server counts none, a transaction that was listed and then vanished shows that there
    is such a client.
    """
    if decisions is None:
        return undecided.losses if undecided.gone else 0
    rolled_back = min(undecided.rolled_back, decisions.rollbacks)
    return rolled_back + min(undecided.committed, decisions.commits) + undecided.gone


def count_unexplained_decisions(
    undecided: Undecided, decisions: Decisions | None
) -> int:
    """Count the losses that no decision counted by the server explains.

    Return 0 if the server counts no decisions.
    """
    if decisions is None:
        return 0
    return undecided.losses - count_foreign_decisions(undecided, decisions)


def _explain_foreign_decisions(
    losses: int, undecided: Undecided, decisions: Decisions | None
) -> str:
    shown = []
    if decisions and decisions.rollbacks + decisions.commits:
        rolled_back = format_count(decisions.rollbacks, "rollback")
        committed = format_count(decisions.commits, "commit")
        shown.append(
            f"the server counted {rolled_back} and {committed}"
            " of prepared transactions since it started, before dbcheck decided any;"
            " that is of all clients of this server, so a loss may hide behind it: stop"
            " other clients that use XA, and cut again"
        )
    if undecided.gone:
        gone = format_count(undecided.gone, "transaction")
        shown.append(f"{gone} that it had listed after recovery then vanished")
    return (
        f"somebody else may have decided {format_count(losses, 'prepared transaction')}"
        " after recovery (a DBA, a transaction manager, or a reading of dbcheck that"
        " broke off):"
        f" {'; '.join(shown)}"
    )


def _explain_repeats(rows: int) -> str:
    repeat = "repeats an operation" if rows == 1 else "repeat operations"
    return (
        f"{format_count(rows, 'row')} {repeat} that the server never acknowledged:"
        f" {REPEATS}"
    )


class Cause(enum.Enum):
    """Cause of losses; of two that explain as many, the first here comes first."""

    DELETES = "deletes"  # the server counted deletes after the cut; dbcheck made none
    DECISIONS = "decisions"  # another client decided prepared transactions
    REPEATS = "repeats"  # a proxy or a driver repeated operations
    SETTING = "setting"  # commits are lost under a setting of the server or a mount
    LAYER = "layer"  # a layer below the server holds flushes back
    TORN_PAGES = "torn pages"  # a setting leaves no guard against torn pages
    REPLICATION = "replication"  # the node that took over did not have the commits
    SERVER = "server"  # the cut kept the page cache: the server, or another writer
    LARGE_WRITES = "large writes"  # only payloads above a size are lost
    WINDOW = "window"  # operations are lost only beside one kind of task
    REORDERED_WRITES = "reordered writes"  # later writes were kept, earlier ones lost
    LOST_CACHE = "lost cache"  # a cache below the server lost what it held last
    DATA_PAGES = "data pages"  # pages came back in an older state, or damaged


# The causes that a copy can have, too; all others are about a cut.
OF_COPIES = frozenset({Cause.DELETES, Cause.REPEATS})


@dataclass(frozen=True, slots=True)
class Explanation:
    """One cause that the losses look like.

    losses: how many losses the cause can explain.  reason: a text with figures.
    """

    cause: Cause
    losses: int
    reason: str


def diagnose_losses(
    counts: Mapping[LossKind, int],
    shape: LossShape,
    settings: Sequence[Finding],
    layers: Sequence[str],
    *,
    page_cache_kept: bool,
    replication: str = "",
    reader_kept_power: bool = False,
    deleted: int | None = None,
    decided: int = 0,
    uncounted: int = 0,
    repeats: int = 0,
) -> tuple[Explanation, ...]:
    """Return the possible causes of the losses; the cause of most losses comes first.

    counts:   the losses of this run, by kind.
    settings: findings of the audit on settings under which such a cut loses commits.
    layers:   how layers below the server hold flushes back, a text for each.
    page_cache_kept: the cut destroyed the server's memory alone, so no drive lost rows.
    replication: why a standby that took over lacks commits, "" if that is not known.
    reader_kept_power: the node that was read kept its power, so none of its drives lost
              rows.
    deleted:  rows of dbcheck's table that the server counted as deleted since it
              started.  0 rules nothing out: the last ones may not be counted yet.
    decided:  losses of prepared transactions that another client may have decided.
    uncounted: how many of *decided* the server's own count does not explain.
    repeats:  rows of operations that are in the table already.
    """
    diagnosis = _Diagnosis(counts, shape)
    if not diagnosis.total:
        return ()
    listed = [
        *diagnosis.explain_by_deletes(deleted or 0),
        *explain_by_foreign_decisions(decided, uncounted),
    ]
    listed += [*explain_by_repeats(repeats), *diagnosis.explain_by_settings(settings)]
    listed += diagnosis.explain_by_tasks()
    listed += diagnosis.explain_by_replication(replication)
    listed += diagnosis.explain_by_divergence()
    if page_cache_kept:
        listed += diagnosis.explain_by_the_server()
    elif not reader_kept_power:
        listed += diagnosis.explain_by_layers(layers)
        listed += diagnosis.explain_by_large_writes()
        listed += diagnosis.explain_by_order()
        listed += diagnosis.explain_by_pages()
    order = list(Cause)
    return tuple(
        sorted(listed, key=lambda found: (-found.losses, order.index(found.cause)))
    )


def explain_by_foreign_decisions(losses: int, uncounted: int) -> Iterator[Explanation]:
    """Yield that somebody else decided transactions that the load had left prepared.

    uncounted: how many of *losses* the server's own count does not explain.
    """
    if losses:
        reason = (
            f"{losses:,} of the losses are prepared transactions that somebody else may"
            " have committed or rolled back after recovery, as a DBA or a transaction"
            " manager does when the server is back; find that out first"
        )
        if uncounted:
            reason += (
                ". The server counted no such statement for"
                f" {_format_share(uncounted, losses)}:"
                " if nobody restarted it before dbcheck read its rows, these were lost"
                " by the server itself or below it, so look there, too"
            )
        yield Explanation(Cause.DECISIONS, losses, reason)


def explain_by_repeats(losses: int) -> Iterator[Explanation]:
    """Yield that something between client and server sends operations again."""
    if losses:
        reason = (
            f"{losses:,} of the losses are operations that are in the table twice:"
            f" {REPEATS}; look for one first"
        )
        yield Explanation(Cause.REPEATS, losses, reason)


class _Diagnosis:
    """The losses of one run; each method yields what one subject can explain."""

    def __init__(self, counts: Mapping[LossKind, int], shape: LossShape) -> None:
        self._shape = shape
        self.total = sum(counts.values())
        self._missing = sum(counts.get(kind, 0) for kind in MISSING)
        self._diverged = counts.get(LossKind.DIVERGED, 0)
        self._wrong = {
            kind: counts[kind] for kind in _KINDS_OF_PAGES if counts.get(kind)
        }

    def explain_by_deletes(self, deleted: int) -> Iterator[Explanation]:
        """Yield that somebody deleted rows once the server was back."""
        if rows := min(deleted, self._missing):
            reason = (
                f"the server counted {deleted:,} deleted rows in dbcheck's table since"
                " it started, and dbcheck deletes none there: that explains"
                f" {_format_share(rows, self._missing)} missing; find out first who"
                " deleted them"
            )
            yield Explanation(Cause.DELETES, rows, reason)

    def explain_by_settings(self, settings: Sequence[Finding]) -> Iterator[Explanation]:
        """Yield the settings that can cause some of the losses."""
        for finding in settings:
            harm = finding.harm
            if harm.tears:
                reason = f"{finding} leaves no guard against pages that a cut tears"
                yield Explanation(Cause.TORN_PAGES, self.total, reason)
            elif not harm.end:
                reason = f"{finding} can cause losses of every kind"
                yield Explanation(Cause.SETTING, self.total, reason)
            elif newest := self._shape.missing - self._shape.reordered + self._diverged:
                claim = f"{finding} loses what was committed last, and nothing else:"
                reason = f"{claim} it explains {_format_share(newest, self.total)}"
                yield Explanation(
                    Cause.SETTING, newest, f"{reason}{self._format_oldest_loss()}"
                )

    def explain_by_layers(self, layers: Sequence[str]) -> Iterator[Explanation]:
        """Yield the layers below the server that hold flushes back."""
        for layer in layers:
            yield Explanation(
                Cause.LAYER, self.total, f"flushes are held back: {layer}"
            )

    def explain_by_replication(self, why: str) -> Iterator[Explanation]:
        """Yield that the node which took over did not get what is missing."""
        if why and self._missing:
            yield Explanation(Cause.REPLICATION, self._missing, why)

    def explain_by_divergence(self) -> Iterator[Explanation]:
        """Yield that nodes of a group differ, whatever the node that was read has."""
        if self._diverged:
            reason = (
                "nodes of the group count these rows as applied and do not have them:"
                " they lost them in the cut, or somebody wrote to one node alone"
            )
            yield Explanation(Cause.REPLICATION, self._diverged, reason)

    def explain_by_the_server(self) -> Iterator[Explanation]:
        """Yield that no drive was involved."""
        reason = (
            "the page cache survived this cut, so no drive lost these rows. The server"
            " lost them, or somebody wrote to dbcheck's tables"
        )
        yield Explanation(Cause.SERVER, self.total, reason)

    def explain_by_large_writes(self) -> Iterator[Explanation]:
        """Yield that only large payloads are lost, if that is hardly chance."""
        spared, hit = _split_spared_from_hit(self._shape.by_size)
        if not hit or not spared or not _is_hardly_chance(spared, hit):
            return
        size, lost = spared[-1].up_to, sum(share.lost for share in hit)
        reason = (
            f"only payloads above {size:,.0f} bytes lost something:"
            f" {lost:,} of {_count_acked(hit):,}, and none of"
            f" {_count_acked(spared):,} below"
        )
        yield Explanation(Cause.LARGE_WRITES, self.total, reason)

    def explain_by_tasks(self) -> Iterator[Explanation]:
        """Yield the kind of task beside which all was lost, if that is hardly chance.

        All losses during one task are one event, so tasks are counted.  By chance, each
        is of that kind as often as the kind's share of all tasks, or of all acked
        operations.
        """
        shares = self._shape.by_window
        hit = [share for share in shares if share.hit]
        if len(hit) != 1:
            return
        (losing,) = hit
        others = [share for share in shares if share is not losing]
        of_tasks = losing.tasks / (losing.tasks + sum(share.tasks for share in others))
        of_acked = losing.acked / (losing.acked + sum(share.acked for share in others))
        if max(of_tasks, of_acked) ** losing.hit > CHANCE_MAX:
            return
        reason = (
            f"only operations acked during {losing.task.value} lost something:"
            f" {losing.lost:,} of {losing.acked:,}, in {losing.hit:,} of"
            f" {losing.tasks:,} tasks,"
            f" and none of {sum(share.acked for share in others):,} during others"
        )
        yield Explanation(Cause.WINDOW, self.total, reason)

    def explain_by_order(self) -> Iterator[Explanation]:
        """Yield the cause that the order of the missing operations shows."""
        missing, reordered = self._shape.missing, self._shape.reordered
        if not missing:
            return
        if reordered:
            reason = (
                f"{_format_share(reordered, missing)} missing were acked before newer"
                " commits"
                " were sent, and those survived: later writes were kept and earlier"
                " ones lost, as by a cache that writes back in another order"
            )
            yield Explanation(Cause.REORDERED_WRITES, self._missing, reason)
        else:
            reason = (
                "the newest commits are missing, and nothing newer is known to survive:"
                " the end of the log is lost. A cache below the server answered flushes"
                " and lost its power, or the volume was rolled back to a snapshot"
            )
            reason += self._format_oldest_loss()
            yield Explanation(Cause.LOST_CACHE, self._missing, reason)

    def explain_by_pages(self) -> Iterator[Explanation]:
        """Yield that rows are wrong which are not missing."""
        if rows := sum(self._wrong.values()):
            named = ", ".join(f"{n:,} {kind.value}" for kind, n in self._wrong.items())
            reason = f"{named}: pages of the table or of an index came back damaged"
            reason += f" or in an older state{self._format_only_table()}"
            yield Explanation(Cause.DATA_PAGES, rows, reason)

    def _format_oldest_loss(self) -> str:
        oldest_s = self._shape.oldest_s
        if oldest_s is None:
            return ""
        return f"; the oldest loss was acked {oldest_s:,.3f} s before the cut"

    def _format_only_table(self) -> str:
        losing = [name for name, losses in self._shape.by_table.items() if losses]
        if len(losing) != 1 or len(self._shape.by_table) == 1:
            return ""
        return f"; every loss is in the table {losing[0]}"


def _split_spared_from_hit(
    shares: Sequence[Share],
) -> tuple[Sequence[Share], Sequence[Share]]:
    """Return the classes before the first that lost something, and the others."""
    count = next((at for at, share in enumerate(shares) if share.lost), len(shares))
    return shares[:count], shares[count:]


def _is_hardly_chance(spared: Sequence[Share], hit: Sequence[Share]) -> bool:
    """Return True if losses that fall anywhere would hardly spare the first classes."""
    of_acked = _count_acked(hit) / (_count_acked(hit) + _count_acked(spared))
    return of_acked ** sum(share.lost for share in hit) <= CHANCE_MAX


def _count_acked(shares: Sequence[Share]) -> int:
    return sum(share.acked for share in shares)


def _format_share(some: int, total: int) -> str:
    return f"all {total:,}" if some == total else f"{some:,} of {total:,}"
