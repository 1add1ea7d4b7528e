"""Default values and limits of all power switches, in seconds."""

from __future__ import annotations

OFF_S = 15.0  # without power: what is charged must run empty
OFF_S_MIN = 1.0  # no supply's capacitors run empty in less
OFF_S_MAX = 86_400.0
TIMEOUT_S = 60.0  # for one call of a program, or for a host to go
TIMEOUT_S_MIN = 0.01
TIMEOUT_S_MAX = 10_000_000.0
