"""The defaults and the limits of users' settings.

Times in seconds, rates in commits per second of all sessions together.
"""

from __future__ import annotations

# A time that a user sets is between these; the maximum is longer than any real wait.
SECONDS_MIN = 0.01
SECONDS_MAX = 10_000_000.0
DAY_S = 86_400.0

# The power.
OFF_S = 15.0  # time without power, in which charged capacitors run empty
OFF_S_MIN = 1.0  # the capacitors of no power supply run empty in less
OFF_S_MAX = DAY_S
POWER_TIMEOUT_S = 60.0  # for one call of a program, or for a host to go
CUT_S = 60.0  # an unattended cut must stop the acks within this time

# The server.
SILENCE_S = 5.0  # time without any reply; a server under load pauses for less
FAULT_S = 60.0  # in which a program must have begun, or ended, a fault beside the load
COPY_S = 3600.0  # for each program that takes, restores or removes a copy of a server
RPO_S_MIN = 0.1  # of a recovery point objective that is not 0
RPO_S_MAX = DAY_S  # of a recovery point objective: the load runs for longer than that
RETURN_S = 1800.0  # a host may check its memory and its filesystems before it boots

# The load.
SESSIONS_MAX = 4096  # each a connection; no server is tested by more
PROCESSES_MAX = 64  # each takes a core of the client's machine
READERS_MAX = 16  # threads of the client; each takes some of a core
RATE_MAX = 10_000_000.0  # far above what any client sends
RAMP_S_MAX = DAY_S
CUT_AFTER_S_MAX = DAY_S
PAYLOAD_BYTES_MAX = 1 << 20
ROWS_BEFORE_MAX = 100_000_000  # in each table, before the load

# The witness.
WINDOW_ACKS = 4096  # acks that may be unconfirmed; then the sessions of a process wait
BEHIND_S = 2.0  # age of the oldest unconfirmed ack from which on sessions wait
WITNESS_SILENCE_S = 45.0  # longer than TCP needs to resume after an outage of 20 s
