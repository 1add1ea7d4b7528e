"""The result of a go-live check: its steps, what they showed, and what is left to do.

docs/schema/golive.json is the JSON Schema of GoLiveResult.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

from dbcheck.model.verdict import Statistics, Verdict

ASSUMED = "assumed, not seen, "  # the beginning of a point to accept


class StepId(enum.Enum):
    """The steps of a go-live check, in their order."""

    WITNESS = "witness"
    AUDIT = "audit"
    FLUSHES = "flushes"
    POWER = "power"
    FIRST_CUT = "first-cut"
    CAMPAIGN = "campaign"
    PAPERS = "papers"

    @property
    def cuts_power(self) -> bool:
        """True if the step cuts the power of the host."""
        return self in (StepId.POWER, StepId.FIRST_CUT, StepId.CAMPAIGN)

    @property
    def is_campaign(self) -> bool:
        """True if the step is a campaign, which can be continued."""
        return self in (StepId.FIRST_CUT, StepId.CAMPAIGN)


class StepStatus(enum.Enum):
    """The status of a step."""

    OPEN = "open"  # not begun, or to be repeated
    BEGUN = "begun"  # its client ended in the midst of it, or works on it
    STOPPED = "stopped"  # by what it found, by an error or by an interrupt
    LEFT_OUT = "left out"  # it cannot be done on this host, or was not asked for
    DONE = "done"

    @property
    def is_over(self) -> bool:
        """True if there is nothing more to do for the step."""
        return self in (StepStatus.DONE, StepStatus.LEFT_OUT)


@dataclass(frozen=True, slots=True)
class StepResult:
    """What one step showed.

    began, ended: UTC, ISO 8601; "" if it did not.
    command:   what does the same by hand.
    summary:   the result in a sentence, "" while there is none.
    details:   further sentences.
    to_accept: what somebody has to accept by name: warnings, facts that are not known.
    fix:       what to do before the step is repeated, "" if nothing is known.
    error_id:  id of the error that stopped it, "" if none did.
    verdict:   PASS if the check went on after it, null while it is not over.
    """

    step: StepId
    status: StepStatus
    command: str
    began: str = ""
    ended: str = ""
    summary: str = ""
    details: tuple[str, ...] = ()
    to_accept: tuple[str, ...] = ()
    fix: str = ""
    error_id: str = ""
    verdict: Verdict | None = None


@dataclass(frozen=True, slots=True)
class PaperResult:
    """One file that the check hands over; sha256: of its content."""

    file: str
    what: str
    sha256: str


@dataclass(frozen=True, slots=True)
class GoLiveResult:
    """Output of dbcheck golive --json.

    name:     of the host in the inventory.
    verdict:  PASS if every step is over and the campaign passed, FAIL if a step found
              what loses commits, else INCONCLUSIVE.
    subject:  what was checked, by name: server, host, drives, kernel ...
    switch:   who cuts the power, in words.
    campaign: the folder of the campaign, "" before it.
    statistics: of its cuts, null before it.
    confirmed: how many commits its witness holds that were compared; null if unknown.
    limits:   what a PASS of it does not cover.
    papers:   report and bundle, beside this page.
    clean:    the command that removes what dbcheck left on the server.
    """

    name: str
    target: str
    witness: str
    folder: str
    inventory: str
    created: str
    dbcheck: str
    verdict: Verdict
    planned_cuts: int
    bound_ppm: int | None
    switch: str
    clean: str
    steps: tuple[StepResult, ...]
    subject: Mapping[str, str] = field(default_factory=dict)
    campaign: str = ""
    statistics: Statistics | None = None
    confirmed: int | None = None
    limits: tuple[str, ...] = ()
    papers: tuple[PaperResult, ...] = ()

    @property
    def to_accept(self) -> tuple[str, ...]:
        """All that somebody has to accept by name, each once.

        What both campaigns assumed is told with the reason of the last one: the figures
        in it differ.
        """
        found: dict[str, str] = {}
        for text in (x for step in self.steps for x in step.to_accept):
            item = text.partition(":")[0] if text.startswith(ASSUMED) else text
            found[item] = text
        return tuple(found.values())

    @property
    def next_step(self) -> StepResult | None:
        """The first step that is not over, None if all are."""
        return next((one for one in self.steps if not one.status.is_over), None)
