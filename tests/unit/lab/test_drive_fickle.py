"""A drive that lies now and then: as often as asked, and all through one power-on."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from math import comb

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import UsageError
from dbcheck.lab.drive.model import Drive
from dbcheck.lab.spec import DriveSpec
from tests.kit.refusals import refused

BLOCK = b"x" * 512
RARE = Fraction(1, 1000)


def fickle(seed: int, fraction: float = 0.25) -> Drive:
    return Drive(
        DriveSpec(
            personality="fickle", size_bytes=1 << 20, seed=seed, lie_fraction=fraction
        )
    )


def losses(drive: Drive, cuts: int) -> Iterator[bool]:
    """Yield for each of *cuts* cuts whether something flushed is gone after it."""
    for cut in range(cuts):
        content = bytes([cut % 255 + 1]) * 512
        drive.write(0, content, 0.0)
        drive.end_flush(drive.begin_flush(), 0.0)
        drive.cut(0.0, "none", 0)
        yield bytes(drive.read(0, 512)) != content
        drive.fail()
        drive.power_on()


def tails(count: int, trials: int, p: Fraction) -> tuple[Fraction, Fraction]:
    """Return the exact chances of so few successes, and of so many."""
    chances = [comb(trials, n) * p**n * (1 - p) ** (trials - n) for n in range(count)]
    below = sum(chances, Fraction(0))
    here = comb(trials, count) * p**count * (1 - p) ** (trials - count)
    return below + here, 1 - below


@pytest.mark.parametrize("fraction", [0.0, 0.05, 0.25, 0.5, 1.0])
def test_it_loses_as_often_as_asked(fraction: float) -> None:
    lost = sum(losses(fickle(seed=1, fraction=fraction), 2000))
    assert min(tails(lost, 2000, Fraction(str(fraction)))) > RARE


def test_of_a_thousand_campaigns_of_five_cuts_a_quarter_sees_nothing() -> None:
    passed = sum(not any(losses(fickle(seed), 5)) for seed in range(1000))
    assert min(tails(passed, 1000, Fraction(3, 4) ** 5)) > RARE
    assert 200 < passed < 275


def test_the_same_seed_loses_in_the_same_cuts() -> None:
    first, again, other = (list(losses(fickle(seed), 40)) for seed in (7, 7, 8))
    assert first == again != other


@pytest.mark.parametrize("seed", range(12))
def test_within_one_power_on_it_keeps_every_flush_or_none(seed: int) -> None:
    drive = fickle(seed, fraction=0.5)
    for sector in range(50):
        drive.write(512 * sector, BLOCK, 0.0)
        drive.end_flush(drive.begin_flush(), 0.0)
    counters = drive.counters(0.0)
    assert counters.flushes == 50
    assert counters.flushes_honoured in (0, 50)
    lost = drive.cut(0.0, "none", 0).lost_sectors
    assert lost == 50 - counters.flushes_honoured


def test_to_apply_power_that_is_there_draws_nothing() -> None:
    drive = fickle(seed=3, fraction=0.5)
    for _ in range(30):
        drive.power_on()
    drive.end_flush(drive.begin_flush(), 0.0)
    twin = fickle(seed=3, fraction=0.5)
    twin.end_flush(twin.begin_flush(), 0.0)
    assert drive.counters(0.0) == twin.counters(0.0)


@pytest.mark.parametrize("fraction", [-0.1, 1.1])
def test_a_share_is_from_0_to_1(fraction: float) -> None:
    with refused(
        ErrorId.VALUE_INVALID, UsageError, naming=f"lie_fraction is {fraction}"
    ):
        DriveSpec(lie_fraction=fraction)
