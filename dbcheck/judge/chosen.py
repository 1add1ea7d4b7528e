"""Runs that somebody named to have their cuts counted together, and those left out.

Whoever names runs can leave one out, and the bound on the share of cuts that lose holds
only if no run is missing.  So what lies beside the named runs is part of the result.
"""

from __future__ import annotations

from dataclasses import dataclass

from dbcheck.model.verdict import Verdict


@dataclass(frozen=True, slots=True)
class RunBeside:
    """A run of the same server that was not named with the runs that are counted.

    folder:  where it lies, "" in a bundle.
    verdict: as it is stored, null if it was not judged.  reason: of the verdict.
    differs: what is configured otherwise than in the runs that are counted, by name.
    """

    run: str
    folder: str
    verdict: Verdict | None
    reason: str
    differs: tuple[str, ...]

    @property
    def contradicts(self) -> bool:
        """True if it lost something, or may have, under the same configuration."""
        return not self.differs and self.verdict in (Verdict.FAIL, None)


@dataclass(frozen=True, slots=True)
class ChosenRuns:
    """Runs that somebody named, whose cuts are counted together.

    folders: where they lie, the oldest first.
    beside:  the other runs of this server in the same folders, those that contradict a
             PASS first.  While there is one of these the verdict is no PASS.
    """

    folders: tuple[str, ...]
    beside: tuple[RunBeside, ...]

    @property
    def contradicting(self) -> tuple[RunBeside, ...]:
        """The runs beside them that contradict a PASS."""
        return tuple(one for one in self.beside if one.contradicts)

    @property
    def agreeing(self) -> tuple[RunBeside, ...]:
        """The other runs beside them."""
        return tuple(one for one in self.beside if not one.contradicts)

    def limit_verdict(self, verdict: Verdict) -> Verdict:
        """Return *verdict*, that of the named runs; no PASS if one contradicts it."""
        is_doubtful = verdict is Verdict.PASS and bool(self.contradicting)
        return Verdict.INCONCLUSIVE if is_doubtful else verdict
