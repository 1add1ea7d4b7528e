"""The client's side of the protocol that agent.py speaks."""

from __future__ import annotations

from dbcheck.errors import WitnessError
from dbcheck.remote.channel import AgentProtocol, Channel, Pipe
from dbcheck.remote.program import program

PARTS = ("dbcheck.owners",)  # of the agent's program, in front of it
PROGRAM = program("dbcheck.witness.agent", *PARTS)
HINTS = {
    "ENOSPC": "Make room in the witness's folder; what was confirmed is kept.",
    "EDQUOT": "Raise the quota on the witness; what was confirmed is kept.",
    "EIO": "The witness's disk fails, or its filesystem has become read-only; see its "
    "kernel log. Use another witness.",
    "EROFS": "Its filesystem is mounted read-only, or became so after an error: see "
    "the witness's kernel log. Name another folder.",
    "EACCES": "Name a folder on the witness that its user may write.",
    "EPERM": "Name a folder on the witness that its user may write.",
    "ENOTDIR": "Name a folder, not a file, on the witness.",
    "volatile": "Name a folder on a disk; a folder in memory is lost with the power.",
    "not-own": "Name a folder in the home of the user who logs in there, e.g. "
    "ssh://me@witness/~/dbcheck, or fix this one (chown, chmod go-w).",
    "exists": "Each run needs a new id, and each process of a load a new log.",
    "no-log": "The run's manifest says how many logs it has.",
    "in-use": "Wait until that run is over, or end its client; if the client is lost, "
    "end its agent on the witness.",
    "no-run": "`dbcheck witness show --witness URL` lists the runs that are there.",
    "strangers": "Check that folder by hand; dbcheck deletes only its own files.",
}
_PROTOCOL = AgentProtocol(
    program=PROGRAM,
    who="witness",
    failure=WitnessError,
    hints=HINTS,
    ended_hint="Check that host; acks that it had confirmed are safe there.",
)


def open_channel(pipe: Pipe, place: str) -> Channel:
    """Send the agent its program; raise WitnessError unless it answers."""
    return Channel(pipe, place, _PROTOCOL)
