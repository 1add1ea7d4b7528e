"""What a cluster promises: which power it may lose, and still have every commit."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from random import Random

from dbcheck.error_ids import ErrorId
from dbcheck.errors import UsageError

STAGGER_S_MAX = 60.0


class Promise(enum.Enum):
    """Which nodes lose their power, and whether the writer comes back.

    The value is its name in inventories, flags and runs.
    """

    WRITER = "writer"
    WRITER_GONE = "writer-gone"
    ALL = "all"
    ALL_WRITER_GONE = "all-writer-gone"

    @property
    def writer_returns(self) -> bool:
        """Whether the writer gets its power back and is read."""
        return self in (Promise.WRITER, Promise.ALL)

    @property
    def cuts_all(self) -> bool:
        """Whether every node loses its power."""
        return self in (Promise.ALL, Promise.ALL_WRITER_GONE)

    def describe(self, stagger_s: float) -> str:
        """Return what the commits must survive, to come after "survived".

        stagger_s: see model.records.Manifest.
        """
        order = f", one after the other within {stagger_s:g} s" if stagger_s else ""
        return _DESCRIPTIONS[self] + order

    def cut(self, names: Iterable[str], writer: str) -> tuple[str, ...]:
        """Return which of the nodes *names* lose their power."""
        return tuple(name for name in names if self.cuts_all or name == writer)

    def returning(self, names: Iterable[str], writer: str) -> tuple[str, ...]:
        """Return which of them get it back before anything is read."""
        cut = self.cut(names, writer)
        return tuple(name for name in cut if self.writer_returns or name != writer)


def require_stagger(promise: Promise, stagger_s: float) -> None:
    """Raise UsageError unless nodes that are cut for *promise* can be cut so.

    A standby that is read must have been cut when the acknowledgements ended.
    """
    if stagger_s and promise is not Promise.ALL:
        raise UsageError(
            f"cuts for the promise {promise.value} cannot be staggered",
            id=ErrorId.PROMISE_NOT_STAGGERED,
            hint=f"Use {Promise.ALL.value}, or leave --stagger out.",
        )


def staggered(
    names: Iterable[str], writer: str, stagger_s: float, seed: int
) -> dict[str, float]:
    """Return after how many seconds each node is cut; the *writer* is the first.

    The others follow in an order that *seed* draws, the last of them at *stagger_s*.
    """
    others = sorted(name for name in names if name != writer)
    draw = Random(seed)
    draw.shuffle(others)
    delays = sorted(draw.uniform(0, stagger_s) for _ in others[1:])
    return dict(zip([writer, *others], [0.0, *delays, stagger_s], strict=False))


_DESCRIPTIONS = {
    Promise.WRITER: "a power cut of the writer",
    Promise.WRITER_GONE: "the loss of the writer",
    Promise.ALL: "a power cut of all nodes",
    Promise.ALL_WRITER_GONE: "the loss of the writer in a power cut of all nodes",
}
