"""Several checks of one server: runs that are counted together, and checks over time.

Whoever names runs can leave one out, and the bound on the share of cuts that lose holds
only if no run is missing.  So what lies beside the named runs is part of the result.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dbcheck.model.verdict import Statistics, Verdict


@dataclass(frozen=True, slots=True)
class RunBeside:
    """A run of the same server that was not named with the runs that are counted.

    folder:  where it lies, "" in a bundle.
    verdict: as it is stored, null if it was not judged.  reason: of the verdict.
    differs: what of the server and its storage was otherwise than in the runs that are
             counted, by name.
    tested_otherwise: what was otherwise in the load or the cut, by name.
    countable: it could be named with them, and would count.
    """

    run: str
    folder: str
    verdict: Verdict | None
    reason: str
    differs: tuple[str, ...]
    countable: bool = True
    tested_otherwise: tuple[str, ...] = ()

    @property
    def contradicts(self) -> bool:
        """True if it lost something, or may have, on the server as it was counted.

        Commits must survive whatever the load and the cut are.
        """
        return not self.differs and self.verdict in (Verdict.FAIL, None)


@dataclass(frozen=True, slots=True)
class ChosenRuns:
    """Runs that somebody named, whose cuts are counted together.

    folders: where they lie, the oldest first.
    beside:  the other runs of this server in the same folders, those that contradict a
             PASS first.  While there is one of these the verdict is no PASS.
    blind:   why the newest control of the named runs does not show that this set-up
             sees losses, "" if it does or if there was no control.  No PASS either.
    """

    folders: tuple[str, ...]
    beside: tuple[RunBeside, ...]
    blind: str = ""

    @property
    def contradicting(self) -> tuple[RunBeside, ...]:
        """The runs beside them that contradict a PASS."""
        return tuple(one for one in self.beside if one.contradicts)

    @property
    def agreeing(self) -> tuple[RunBeside, ...]:
        """The other runs beside them."""
        return tuple(one for one in self.beside if not one.contradicts)

    @property
    def may_lack_loss(self) -> bool:
        """True if a loss may be missing among the cuts, so that no bound holds."""
        return bool(self.contradicting or self.blind)

    def limit_verdict(self, verdict: Verdict) -> Verdict:
        """Return *verdict*, that of the named runs; no PASS if they may lack a loss."""
        is_doubtful = verdict is Verdict.PASS and self.may_lack_loss
        return Verdict.INCONCLUSIVE if is_doubtful else verdict


@dataclass(frozen=True, slots=True)
class CheckResult:
    """One check of a server, as it was judged when it was made.

    kind:    "run", "restore", "snapshot", "campaign" or "control", which is here only
             if it failed or is not judged.
    began:   ISO 8601.
    verdict: null if the check was not judged.  reason: why, the first sentence.
    statistics: null if the check was not judged, of a control, and of a snapshot.
    server:  product and version.  drives: their models and firmware; () if not known.
    findings: what the audit before the newest cut found that is more than a note, a
             text for each; null if it could not be made.
    """

    kind: str
    folder: str
    began: str
    verdict: Verdict | None
    reason: str
    statistics: Statistics | None
    commits_per_s: float | None
    server: str
    drives: tuple[str, ...]
    findings: tuple[str, ...] | None


@dataclass(frozen=True, slots=True)
class Change:
    """A configured value that is not as it was; before, now: null if not known."""

    name: str
    before: str | None
    now: str | None


@dataclass(frozen=True, slots=True)
class ServerHistory:
    """The checks of one server.

    target:  its URL in the newest check.
    checks:  the newest first; at least one.
    new_findings, gone_findings: of the audit before the newest check, compared with
             the check before it; () without one, or if one of both is not known.
    rate_ratio: the newest rate of commits, divided by the one before it; null without
             both.
    changes: what is configured otherwise than in the check before.
    """

    target: str
    checks: tuple[CheckResult, ...]
    new_findings: tuple[str, ...]
    gone_findings: tuple[str, ...]
    rate_ratio: float | None
    changes: tuple[Change, ...]

    @property
    def newest(self) -> CheckResult:
        """The newest check."""
        return self.checks[0]


@dataclass(frozen=True, slots=True)
class HistoryResult:
    """All checks in a folder.

    servers: those whose newest check failed first, then those whose newest check shows
             nothing.
    unread:  folder -> why the check in it cannot be read.
    """

    folder: str
    servers: tuple[ServerHistory, ...]
    unread: Mapping[str, str]
