"""A short run of the fuzzer: seeds, what was found once, and changes of both."""

from __future__ import annotations

import random

import pytest

from tests.fuzz.script import Script, edit_bytes
from tests.fuzz.target import FOUND
from tests.fuzz.targets import TARGETS

CHANGED = 20  # make fuzz tries millions
EDIT_BYTES = 40


@pytest.mark.parametrize("name", TARGETS)
def test_nothing_from_outside_breaks_its_reader(name: str) -> None:
    target = TARGETS[name]
    inputs = [*target.seeds(), *target.found()]
    draw = random.Random(name)
    for content in inputs:
        target.attack(content)
    for _ in range(CHANGED):
        target.attack(draw.randbytes(draw.randint(1, EDIT_BYTES)))
        content = draw.choice(inputs)
        for _ in range(draw.randint(1, 4)):
            content = edit_bytes(Script(draw.randbytes(EDIT_BYTES)), content)
        target.attack(content)


def test_whatever_was_found_has_its_target() -> None:
    """The longest name that fits is the target's; the rest says what was found."""
    for path in FOUND.iterdir():
        assert any(path.name.startswith(f"{name}-") for name in TARGETS), path
