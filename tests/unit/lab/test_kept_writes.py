"""What a cut leaves, kind by kind."""

from __future__ import annotations

import pytest

from dbcheck.lab.drive.model import Write, choose_surviving_parts, count_sectors
from dbcheck.lab.spec import KEPT_WRITES

EIGHT = [(4096 * n, bytes([n + 1]) * 4096) for n in range(8)]


def left_of(kind: str, writes: list[Write], seed: int) -> list[Write]:
    return [
        each for of_one in choose_surviving_parts(kind, writes, seed) for each in of_one
    ]


def outcomes(kind: str, writes: list[Write]) -> list[list[Write]]:
    return [left_of(kind, writes, seed) for seed in range(200)]


def test_none_and_all_mean_what_they_say() -> None:
    assert left_of("none", EIGHT, 1) == []
    assert left_of("all", EIGHT, 1) == EIGHT


def test_a_prefix_is_whole_writes_of_every_length() -> None:
    found = outcomes("prefix", EIGHT)
    assert all(left == EIGHT[: len(left)] for left in found)
    assert {len(left) for left in found} == set(range(9))


def test_a_torn_cut_leaves_a_prefix_and_the_beginning_of_the_next() -> None:
    torn = 0
    for left in outcomes("torn", EIGHT):
        if left == EIGHT:
            continue
        *whole, (offset, content) = left
        assert whole == EIGHT[: len(whole)]
        expected_offset, expected = EIGHT[len(whole)]
        assert offset == expected_offset
        assert 0 < len(content) < len(expected)
        assert len(content) % 512 == 0
        assert content == expected[: len(content)]
        torn += 1
    assert torn > 100


def test_a_suffix_has_the_newest_writes_whole() -> None:
    found = outcomes("suffix", EIGHT)
    assert all(left == EIGHT[8 - len(left) :] for left in found)
    assert {len(left) for left in found} == set(range(9))


def test_a_single_sector_cannot_be_torn() -> None:
    one = [(512, b"x" * 512)]
    assert {len(left) for left in outcomes("torn", one)} == {0, 1}
    assert all(left in ([], one) for left in outcomes("torn", one))


def test_random_sectors_fall_independently_within_one_write() -> None:
    write = (512, bytes(range(4)) * 128 + b"\xff" * 512 * 7)
    found = outcomes("random", [write])
    assert len({tuple(left) for left in found}) > 100
    kept = [0] * 8
    for left in found:
        for offset, content in left:
            assert content == write[1][offset - 512 : offset][:512]
            kept[offset // 512 - 1] += 1
    assert all(60 < count < 140 for count in kept)


def test_any_whole_writes_may_be_left_and_none_in_part() -> None:
    found = outcomes("writes", EIGHT)
    assert all(write in EIGHT for left in found for write in left)
    assert all(left == sorted(left) for left in found)
    kept = [sum(write in left for left in found) for write in EIGHT]
    assert all(60 < count < 140 for count in kept)


def test_blocks_of_4096_bytes_are_never_torn() -> None:
    write = (8192 - 512, bytes([1]) * 512 + bytes([2]) * 4096 + bytes([3]) * 1024)
    whole = {(7680, 512), (8192, 4096), (12288, 1024)}
    found = outcomes("blocks", [write])
    left = [(offset, len(content)) for one in found for offset, content in one]
    assert set(left) == whole
    assert all(60 < left.count(part) < 140 for part in whole)


@pytest.mark.parametrize("kind", ["random", "torn"])
def test_an_unaligned_write_breaks_at_the_sectors_of_the_drive(kind: str) -> None:
    edges = {700, 1024, 1536, 1700}
    for left in outcomes(kind, [(700, bytes(1000))]):
        for offset, content in left:
            assert {offset, offset + len(content)} <= edges


def test_no_writes_leave_nothing() -> None:
    for kind in KEPT_WRITES:
        assert list(choose_surviving_parts(kind, [], 3)) == []


@pytest.mark.parametrize("kind", KEPT_WRITES)
def test_what_survives_is_told_write_by_write(kind: str) -> None:
    for seed in range(20):
        told = list(choose_surviving_parts(kind, EIGHT, seed))
        assert len(told) == len(EIGHT)
        for (start, content), pieces in zip(EIGHT, told, strict=True):
            for offset, piece in pieces:
                assert start <= offset
                assert content[offset - start :][: len(piece)] == piece


def test_sectors_counts_those_that_are_touched() -> None:
    assert count_sectors(0, 512) == 1
    assert count_sectors(511, 2) == 2
    assert count_sectors(512, 4096) == 8
    assert count_sectors(512, 0) == 0


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(ValueError, match="half"):
        list(choose_surviving_parts("half", EIGHT, 0))
