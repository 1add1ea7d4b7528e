"""A crash state: what a power cut could have left on the drives of a recorded load."""

from __future__ import annotations

from dataclasses import dataclass

Part = tuple[int, int, int]  # number of a write; first byte, bytes of it that survived


@dataclass(frozen=True, slots=True)
class CrashState:
    """One crash state.

    moment: the number of the moment at which it is judged.
    drives: what each holds: how many writes are whole, and parts of later ones.  It is
            all that makes one state differ from another.
    """

    moment: int
    drives: tuple[tuple[int, tuple[Part, ...]], ...]
