"""The verdicts on cycles, and what many cuts prove together.

Every sentence about probability comes from here.

A campaign is *cuts* independent trials, each of which loses with the same unknown
probability; *losses* of them did.  Everything is computed in whole numbers and bounds
are rounded outwards, to parts per million (ppm) and again where they are printed, so
that no rounding claims more than was shown.

Bounds are those of C. J. Clopper and E. S. Pearson, "The use of confidence or fiducial
limits illustrated in the case of the binomial", Biometrika 26 (1934) 404-413, each of
them one-sided at 95% confidence: if the truth lies beyond a bound, what was seen has a
probability of 5% at most.  Without a loss the upper bound is 1 - 0.05^(1/cuts), nearly
3/cuts: the "rule of three" of J. A. Hanley and A. Lippman-Hand, "If nothing goes wrong,
is everything all right?", JAMA 249 (1983) 1743-1745.

Stopping early.  The bounds are for a number of cuts that was fixed before the first.
A campaign that ends at the first loss, or else at a number of cuts fixed in advance
(cuts_needed), keeps them.  It gets through n cuts without a loss exactly if the first n
lose nothing, with probability (1 - p)^n, whatever the plan was for a loss.  If it ends
with a loss in cut n, then P(a loss in n cuts or fewer) = 1 - (1 - p)^n gives the same
lower bound, and P(no loss in n - 1 cuts) = (1 - p)^(n - 1) an upper bound below the one
stated.  To continue after a loss until the numbers look better would not keep them.

The control is a cycle whose sessions are acked too early, so that it must lose.  If it
does not, the cut does not reach what is at risk or dbcheck does not see what is gone,
and a PASS of the same rig proves nothing.
"""

from __future__ import annotations

import enum
import math
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import ceil, comb


class Verdict(enum.Enum):
    """The outcome of a cycle."""

    PASS = "PASS"
    FAIL = "FAIL"
    INCONCLUSIVE = "INCONCLUSIVE"


class CycleVerdict(enum.Enum):
    """The result of a cycle of a campaign: its verdict, or an error."""

    PASS = "PASS"
    FAIL = "FAIL"
    INCONCLUSIVE = "INCONCLUSIVE"
    ERROR = "ERROR"

    @property
    def verdict(self) -> Verdict | None:
        """The verdict, None if there is none."""
        return None if self is CycleVerdict.ERROR else Verdict(self.value)

    @property
    def is_decided(self) -> bool:
        """True for a PASS and a FAIL."""
        return self in (CycleVerdict.PASS, CycleVerdict.FAIL)


class JudgedCycle:
    """What a cycle of a campaign is worth.

    number: 0 for a control.
    uncut:  no cut of the server's power was asked for, whatever ended the load.
    lost, earlier_lost: rows of this cycle, and of earlier ones; None if the table was
            not read.
    """

    __slots__ = ()

    number: int
    verdict: CycleVerdict
    uncut: bool
    lost: int | None
    earlier_lost: int | None

    @property
    def is_judged(self) -> bool:
        """True if the cycle is no control, and came to a PASS or a FAIL."""
        return bool(self.number) and self.verdict.is_decided

    @property
    def has_failed(self) -> bool:
        """True if the cycle is no control and lost something, with or without a cut."""
        return self.is_judged and self.verdict is CycleVerdict.FAIL

    @property
    def lost_without_cut(self) -> bool:
        """True if it is a FAIL that says nothing about how often cuts lose."""
        return self.has_failed and self.uncut

    @property
    def counts(self) -> bool:
        """True if its cut is evidence, for the server or against it."""
        return self.is_judged and not self.lost_without_cut

    @property
    def has_unexplained_loss(self) -> bool:
        """True if acknowledged rows were missing after a cut that does not count.

        To pass over such a cut, and make another one, would pass over its loss.
        """
        is_open = self.verdict is CycleVerdict.INCONCLUSIVE
        return bool(self.number and is_open and (self.lost or self.earlier_lost))


def format_at_most(seconds: float) -> str:
    """Return an upper limit in seconds, rounded up to a tenth."""
    return f"{math.ceil(seconds * 10) / 10:,.1f}"


def find_worst(verdicts: Iterable[Verdict]) -> Verdict:
    """Return the worst of *verdicts*: FAIL, then INCONCLUSIVE, then PASS."""
    order = (Verdict.PASS, Verdict.INCONCLUSIVE, Verdict.FAIL)
    return max(verdicts, key=order.index)


def compute_price_per_rate(
    price: float | None, rate: float | None, verdict: Verdict | None
) -> float | None:
    """Return the price of each durable commit per second.

    price: the price of what the server runs on.  rate: commits per second.
    None if either is not known, and unless the verdict is PASS: a commit that is not
    durable has no price.
    """
    if price is None or not rate or verdict is not Verdict.PASS:
        return None
    return price / rate


class ControlOutcome(enum.Enum):
    """Outcome of a control; the value is what is stored."""

    LOST = "lost"  # it lost its last commits, as expected
    BLIND = "blind"  # it was weak and a fair test, and lost nothing
    UNFAIR = "unfair"  # it was not weak, or not a fair test
    FAILED = "failed"  # it lost what no weak session can lose


@dataclass(frozen=True, slots=True)
class ControlFacts:
    """Result of a control, for the cycles that follow it.

    No cycle follows a control that failed.  reason: the first of the control's reasons.
    """

    run_id: str
    outcome: ControlOutcome
    reason: str


PPM = 1_000_000
CONFIDENCE = "95% confidence"
_DOUBT_ONE_IN = 20  # 5%: what CONFIDENCE leaves in doubt


def compute_loss_ppm_max(losses: int, cuts: int) -> int:
    """Return the upper bound on the probability that a cut loses, in ppm.

    Rounded up.  Without any cut the bound is PPM, which is 100%.
    """
    if losses == cuts:
        return PPM
    return bisect_left(range(PPM), True, key=lambda ppm: _is_rare(0, losses, cuts, ppm))


def compute_loss_ppm_min(losses: int, cuts: int) -> int:
    """Return the lower bound on the probability that a cut loses, in ppm.

    Rounded down.  Without a loss it is 0.
    """
    if not losses:
        return 0
    above = bisect_right(
        range(PPM + 1), False, key=lambda ppm: not _is_rare(losses, cuts, cuts, ppm)
    )
    return above - 1


def _is_rare(least: int, most: int, cuts: int, ppm: int) -> bool:
    """Return True if *least* to *most* losses have a probability of 5% or less."""
    whole = PPM**cuts
    if most == cuts and least:  # nearly all of many terms: the others are fewer
        return bool(
            _DOUBT_ONE_IN
            * (whole - _compute_probability_of_losses(0, least - 1, cuts, ppm))
            <= whole
        )
    return bool(
        _DOUBT_ONE_IN * _compute_probability_of_losses(least, most, cuts, ppm) <= whole
    )


def _compute_probability_of_losses(least: int, most: int, cuts: int, ppm: int) -> int:
    """Return the probability of *least* to *most* losses, times PPM**cuts."""
    lose, keep = ppm, PPM - ppm
    ways: int = sum(
        comb(cuts, losses) * lose**losses * keep ** (most - losses)
        for losses in range(least, most + 1)
    )
    rest: int = keep ** (cuts - most)
    return ways * rest


def compute_cuts_needed(bound_ppm: int) -> int:
    """Return the cuts without a loss for which the bound is *bound_ppm* or less.

    The bound is compute_loss_ppm_max().

    bound_ppm: 1 to PPM - 1.
    """
    if not 0 < bound_ppm < PPM:
        raise ValueError(f"no number of cuts shows a bound of {bound_ppm} ppm")
    keep = PPM - bound_ppm
    most = 1
    while _DOUBT_ONE_IN * keep**most > PPM**most:
        most *= 2
    return bisect_left(
        range(most),
        True,
        key=lambda cuts: bool(_DOUBT_ONE_IN * keep**cuts <= PPM**cuts),
    )


def compute_unseen_ppm(loss_ppm: int, cuts: int) -> int:
    """Return the chance, in ppm, that *cuts* cuts show no loss, rounded up.

    loss_ppm: the probability that one of them loses.
    """
    return ceil(Fraction(PPM - loss_ppm, PPM) ** cuts * PPM)


@dataclass(frozen=True, slots=True)
class Statistics:
    """Statistics of a tally, for --json; see Tally for the counts.

    loss_ppm_max, loss_ppm_min: bounds of how many cuts lose, in parts per million,
    each at 95% confidence.
    """

    losses: int
    cuts: int
    inconclusive: int
    depths: Mapping[str, int]
    loss_ppm_max: int
    loss_ppm_min: int
    sentence: str


@dataclass(frozen=True, slots=True)
class ComparisonResult:
    """Comparison of two configurations, for --json; see Comparison."""

    difference_ppm: int | None
    p_ppm: int
    sentence: str


@dataclass(frozen=True, slots=True)
class Tally:
    """The cycles of one configuration, counted.

    losses:       cycles that failed: rows, the table or the server were lost.
    cuts:         cycles that count, that is those with a loss and those that passed.
    inconclusive: cycles that do not count.
    depths:       how deep the cuts went -> how many of them; "" if not measured.

    A failed cycle counts although its cut was proven less well than a PASS asks for:
    counting it can only make the upper bound higher.
    """

    losses: int
    cuts: int
    inconclusive: int = 0
    depths: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse counts that no campaign has."""
        if not 0 <= self.losses <= self.cuts:
            raise ValueError(f"{self.losses} losses in {self.cuts} cuts")

    @classmethod
    def of(cls, cycles: Iterable[tuple[Verdict, str]]) -> Tally:
        """Count *cycles*, each a verdict and the name of a depth ("" if unknown)."""
        seen = list(cycles)
        depths = [
            depth for verdict, depth in seen if verdict is not Verdict.INCONCLUSIVE
        ]
        return cls(
            losses=sum(verdict is Verdict.FAIL for verdict, _ in seen),
            cuts=len(depths),
            inconclusive=len(seen) - len(depths),
            depths=Counter(depths),
        )

    @classmethod
    def together(cls, parts: Iterable[Statistics]) -> Tally:
        """Count the cuts of several targets as those of one configuration."""
        all_parts = list(parts)
        depths = Counter[str]()
        for part in all_parts:
            depths.update(part.depths)
        return cls(
            losses=sum(part.losses for part in all_parts),
            cuts=sum(part.cuts for part in all_parts),
            inconclusive=sum(part.inconclusive for part in all_parts),
            depths=depths,
        )

    @property
    def sentence(self) -> str:
        """The number of losses with the bounds that they prove, for a report."""
        if not self.cuts:
            return f"no cut counts{self._left_out}: this proves nothing"
        most = format_percent_up(compute_loss_ppm_max(self.losses, self.cuts))
        where = f"in {format_count(self.cuts, 'cut')}{self._at_depths}"
        if not self.losses:
            shown = f"at most {most} of cuts lose"
            if self.cuts == 1:
                shown = _describe_one_pass()
            return f"no loss {where}: {shown}, {CONFIDENCE}{self._left_out}"
        least = format_percent_down(compute_loss_ppm_min(self.losses, self.cuts))
        bounds = f"at least {least} of cuts lose, {CONFIDENCE}"
        if self.losses < self.cuts:
            bounds += f", and at most {most}, {CONFIDENCE}"
        return f"{format_count(self.losses, 'loss')} {where}: {bounds}{self._left_out}"

    @property
    def _at_depths(self) -> str:
        if not any(self.depths):
            return ""
        if len(self.depths) == 1:
            return f" at {next(iter(self.depths))} depth"
        parts = [
            f"{count} at {depth} depth" if depth else f"{count} at a depth not measured"
            for depth, count in sorted(self.depths.items())
        ]
        return f" ({', '.join(parts)})"

    @property
    def _left_out(self) -> str:
        if not self.inconclusive:
            return ""
        return (
            f" ({format_count(self.inconclusive, 'cycle')} inconclusive, not counted)"
        )

    @property
    def statistics(self) -> Statistics:
        """Statistics of the tally."""
        return Statistics(
            self.losses,
            self.cuts,
            self.inconclusive,
            dict(self.depths),
            compute_loss_ppm_max(self.losses, self.cuts),
            compute_loss_ppm_min(self.losses, self.cuts),
            self.sentence,
        )


GOAL_PPM = PPM // 20  # 5%: a report names how many cuts without a loss show it
PROOF_OF_LOSS = "One loss is a proof."


def describe_proof(losses: int, cuts: int) -> str:
    """Return the sentence on how much *cuts* cuts prove, *losses* of which lost."""
    if not cuts:
        return "This proves nothing, neither for the server nor against it."
    if losses:
        return PROOF_OF_LOSS
    if cuts == 1:
        return f"{_describe_one_pass().capitalize()} ({CONFIDENCE})."
    needed, goal = compute_cuts_needed(GOAL_PPM), format_percent_up(GOAL_PPM)
    shown = f"{cuts:,} passes bound losses at"
    shown += f" {format_percent_up(compute_loss_ppm_max(0, cuts))}"
    more = f"; {needed} bound them at {goal}" if cuts < needed else ""
    return f"{shown}{more} ({CONFIDENCE})."


def _describe_one_pass() -> str:
    """Return the clause on a single cut without a loss; its bound says little."""
    needed, goal = compute_cuts_needed(GOAL_PPM), format_percent_up(GOAL_PPM)
    return f"one pass proves almost nothing; {needed} passes bound losses at {goal}"


def describe_goal(cuts: int) -> str:
    """Return the number of cuts to make, and the bound that they show if none loses."""
    bound = format_percent_up(compute_loss_ppm_max(0, cuts))
    shown = f"if none loses, at most {bound} of such cuts lose"
    if cuts == 1:
        shown = _describe_one_pass()
    return f"{format_count(cuts, 'cut')}; {shown} ({CONFIDENCE})"


def describe_bound(losses: int, cuts: int) -> tuple[str, str]:
    """Return the share of cuts that lose, and what it is a share of; "" without cuts.

    losses: how many of *cuts* cuts lost.
    """
    if not cuts:
        return "", ""
    most = format_percent_up(compute_loss_ppm_max(losses, cuts))
    if not losses:
        return f"up to {most}", f"of such cuts may still lose ({CONFIDENCE})"
    least = format_percent_down(compute_loss_ppm_min(losses, cuts))
    if losses == cuts:
        return f"at least {least}", f"of such cuts lose ({CONFIDENCE})"
    return f"{least} to {most}", f"of such cuts lose (each limit at {CONFIDENCE})"


def withhold_bound(shown: Statistics, why: str) -> Statistics:
    """Return *shown* without an upper bound: a loss may be missing among its cuts."""
    sentence = f"{format_count(shown.cuts, 'cut')} counted, and no bound: {why}"
    return replace(shown, loss_ppm_max=PPM, sentence=sentence)


def describe_unseen_losses(cuts: int) -> str:
    """Return the clause with the chance that a bad server passes *cuts* cuts.

    The bad server of this example loses commits in a quarter of all cuts.
    """
    chance = format_percent_up(compute_unseen_ppm(PPM // 4, cuts))
    return (
        "a server that loses in a quarter of such cuts would pass "
        f"{format_count(cuts, 'cut')} with a chance of {chance}"
    )


def describe_losses_without_cut(cycles: int) -> str:
    """Return the clause on cycles that lost something without a power cut on record."""
    cuts = "a cut" if cycles == 1 else "cuts"
    return (
        f"{format_count(cycles, 'cycle')} lost something without a power cut on record,"
        f" not counted as {cuts}"
    )


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two configurations, A and B, cut for cut."""

    a: Tally
    b: Tally

    @property
    def p_ppm(self) -> int:
        """Fisher's exact test, two-sided: p in ppm, rounded up.

        The probability that, if both lose equally often, the same losses fall on A and
        B at least as unevenly as they did, that is in a way that is not more probable.
        R. A. Fisher, "On the interpretation of chi-squared from contingency tables, and
        the calculation of P", J. R. Stat. Soc. 85 (1922) 87-94, and The Design of
        Experiments (1935), section 6.
        """
        a, b = self.a, self.b
        losses = a.losses + b.losses
        ways = [
            comb(a.cuts, in_a) * comb(b.cuts, losses - in_a)
            for in_a in range(losses + 1)
        ]
        as_uneven = sum(way for way in ways if way <= ways[a.losses])
        return ceil(Fraction(as_uneven * PPM, sum(ways)))

    @property
    def difference_ppm(self) -> int | None:
        """B's share of lossy cuts less that of A; None without cuts."""
        if not (self.a.cuts and self.b.cuts):
            return None
        shares = [Fraction(tally.losses, tally.cuts) for tally in (self.a, self.b)]
        return round((shares[1] - shares[0]) * PPM)

    @property
    def sentence(self) -> str:
        """The losses of both, with the significance of the difference, for a report."""
        a, b = self.a, self.b
        text = f"losses in {a.losses} of {a.cuts} cuts against {b.losses} of {b.cuts}"
        if self.difference_ppm is None:
            return f"{text}: nothing to compare"
        rare = self.p_ppm * _DOUBT_ONE_IN <= PPM
        chance = "unlikely to be chance" if rare else "which can be chance"
        points = abs(self.difference_ppm) * 100 / PPM
        p = (
            -(-self.p_ppm // _find_step_of_last_digit(self.p_ppm))
            * _find_step_of_last_digit(self.p_ppm)
            / PPM
        )
        return (
            f"{text}: {points:.0f} percentage points apart, {chance} "
            f"(Fisher's exact test, two-sided, p at most {p:g})"
        )

    @property
    def result(self) -> ComparisonResult:
        """Return the comparison, for --json."""
        return ComparisonResult(self.difference_ppm, self.p_ppm, self.sentence)


def format_percent_up(ppm: int) -> str:
    """Return a share as percent, rounded up: whole, or two digits if below 10%."""
    return _format_percent(
        -(-ppm // _find_step_of_last_digit(ppm)) * _find_step_of_last_digit(ppm)
    )


def format_percent_down(ppm: int) -> str:
    """Return a share as percent, rounded down; digits as by format_percent_up()."""
    return _format_percent(
        ppm // _find_step_of_last_digit(ppm) * _find_step_of_last_digit(ppm)
    )


def _find_step_of_last_digit(ppm: int) -> int:
    """Return the value of the last digit that is printed, in ppm."""
    if ppm >= PPM // 10:
        return 10_000
    return int(10 ** max(0, len(str(ppm)) - 2))


def _format_percent(ppm: int) -> str:
    return f"{ppm * 100 / PPM:g}%"


def format_count(number: int, noun: str) -> str:
    """Return a number of things, which *noun* names in the singular."""
    plural = f"{noun}es" if noun.endswith("s") else f"{noun}s"
    return f"{number:,} {noun if number == 1 else plural}"
