"""What a run advises that ended before it was judged."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dbcheck.cli import resumable
from dbcheck.core.gone import Gone
from tests.kit.nodes import having
from tests.kit.samples import LOAD


@pytest.mark.parametrize("gone", Gone)
def test_what_can_still_be_judged(gone: Gone) -> None:
    uncut = having(LOAD, cut=None, gone=gone)
    advised = resumable.UNCUT if gone is Gone.NEVER else resumable.PAUSED
    assert resumable._advice(uncut) == advised
    assert resumable._advice(replace(uncut, cut_failed="no")) == resumable.MAYBE_CUT
    assert resumable._advice(replace(LOAD, gone=gone)) == resumable.PAUSED
    assert resumable._advice(None) == resumable.PAUSED
