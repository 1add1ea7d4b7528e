"""What befalls the witness, or the client, in a trial."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.trials.witness_host import DriveDisk, SmallDisk

if TYPE_CHECKING:
    from tests.trials.trial import Trial

CLOCK_BACK_S = -86_400.0
SLOW_MS = 200.0


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault.

    strike:    does it, once its moment has come.
    disk:      what the witness's folder lies on: plain, small or drive.
    silence_s: after so long the client takes the witness for dead.
    says:      words one of which is in the error, if the client ends with one.
    processes: of the load; 0: it may be one or two.
    ends_load: the run cannot go on, unless its cut was over.
    longer_s:  by so much the load lasts longer, as the fault takes its time.
    rival:     another client wants a run of the same id, at the same moment.
    """

    name: str
    strike: Callable[[Trial], None]
    disk: str = "plain"
    silence_s: float = 45.0
    says: tuple[str, ...] = ()
    processes: int = 0
    ends_load: bool = True
    longer_s: float = 0.0
    rival: bool = False


def kill_client(trial: Trial) -> None:
    trial.client.send_signal(signal.SIGKILL)


def pull_and_plug(trial: Trial) -> None:
    sshd = trial.host.sshd
    sshd.pull()
    time.sleep(trial.spec.outage_s)
    sshd.plug()


def pull(trial: Trial) -> None:
    trial.host.sshd.pull()


def kill_sshd(trial: Trial) -> None:
    """Kill the listener, the sessions, or both."""
    trial.host.sshd.close() if trial.spec.coin else trial.host.end_sessions()


def fill(trial: Trial) -> None:
    disk = trial.host.disk
    assert isinstance(disk, SmallDisk)
    disk.fill()


def break_down(trial: Trial) -> None:
    disk = trial.host.disk
    assert isinstance(disk, SmallDisk)
    disk.break_down()


def slow_down(trial: Trial) -> None:
    disk = trial.host.disk
    assert isinstance(disk, DriveDisk)
    disk.slow_down(SLOW_MS)


def lose_power(trial: Trial) -> None:
    disk = trial.host.disk
    assert isinstance(disk, DriveDisk)
    disk.lose_power(trial.host)


def set_clock_back(trial: Trial) -> None:
    trial.host.set_clock(CLOCK_BACK_S)


def nothing(trial: Trial) -> None:
    """Do nothing: what befalls it came before the load."""


def second_client(trial: Trial) -> None:
    """Start others on the same run folder and on the same run."""
    trial.start_others()


def kill_worker(trial: Trial) -> None:
    workers = trial.workers()
    if workers:
        os.kill(random.Random(trial.spec.seed).choice(workers), signal.SIGKILL)


FAULTS = (
    Fault("client killed", kill_client),
    Fault("cable out and in", pull_and_plug, says=("witness", "did not answer")),
    Fault("sshd killed", kill_sshd, says=("ended", "connect", "SSH")),
    Fault(
        "witness gone",
        pull,
        silence_s=4.0,
        says=("confirmed nothing for 4 s", "did not answer", "connect"),
    ),
    Fault("disk full", fill, "small", says=("No space left on device",)),
    Fault(
        "disk read-only",
        break_down,
        "small",
        says=("Read-only file system", "Input/output error"),
    ),
    Fault("disk slow", slow_down, "drive", ends_load=False),
    Fault("clock back", set_clock_back, processes=1, ends_load=False),
    Fault("clock back in all logs", set_clock_back, processes=2, ends_load=False),
    Fault("same run id", nothing, ends_load=False, rival=True),
    Fault("second client", second_client, ends_load=False, longer_s=5.0),
    Fault(
        "worker killed",
        kill_worker,
        says=("exited unexpectedly (status -9)",),
        processes=2,
    ),
    Fault("witness lost power", lose_power, "drive", says=("ended", "connect", "SSH")),
)
