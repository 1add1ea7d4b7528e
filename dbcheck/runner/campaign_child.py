"""The process of one campaign of a fleet: python -m dbcheck.runner.campaign_child FD.

FD is the descriptor of its channel to the worker's task (fleet/task.py).  If the worker
asks for the end, or dies, the process ends as by Ctrl-C, with the power restored.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sys
import threading
import time
from collections.abc import Container
from dataclasses import replace
from pathlib import Path
from queue import SimpleQueue

from dbcheck.base import interrupt
from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import DbcheckError, FleetError, HostError
from dbcheck.base.processes import Channel, NotAMessage
from dbcheck.campaign.folder import CampaignFolder
from dbcheck.cycle.rig import CutPermit, Rig
from dbcheck.fleet.messages import (
    END_S,
    LOST_S,
    Ended,
    Job,
    Kept,
    Status,
    Word,
    pack_message,
    unpack_message,
)
from dbcheck.inventory.entry import Entry
from dbcheck.ports.listener import LoadStatus, Phase
from dbcheck.power.interlock import require_other_machine
from dbcheck.report.console import make_progress_console
from dbcheck.report.progress import PlainProgress
from dbcheck.runner import assemble
from dbcheck.runner.campaign_run import chain_calls, run_stored

_STATUS_EVERY_S = 1.0  # how often the status of the load is sent
# A client that was taken for dead may still end its campaign.
_WAIT_FOR_WITNESS_S = LOST_S + END_S


def main() -> None:
    """Run one campaign; an interrupt ends the campaign, and nothing around it."""
    interrupt.install_handlers()
    with contextlib.suppress(KeyboardInterrupt), interrupt.hold_interrupts_back():
        worker = Worker(Channel.inherited(int(sys.argv[1])))
        view = Reporting(worker)
        ended = _run(worker, view)
        view.line("ended", ended.error)
        if not worker.keeps(ended):  # the worker, which removes its folder, is lost
            shutil.rmtree(worker.folder.parent, ignore_errors=True)
    interrupt.ended.append(0)


def _run(worker: Worker, view: Reporting) -> Ended:
    """Run the campaign; return how it ended."""
    folder = CampaignFolder.open(worker.folder)
    try:
        with interrupt.let_interrupts_through():
            _require_other_machine(worker.job.entry)
            with folder.locked():
                _take_over(folder, worker.job.own)
                run_stored(
                    worker.job.entry,
                    folder,
                    view,
                    _WAIT_FOR_WITNESS_S,
                    worker.adapt_rig,
                )
    except KeyboardInterrupt:
        return Ended("interrupted")
    except DbcheckError as failed:
        return Ended(failed.with_hint, failed.id)
    return Ended()


def _take_over(folder: CampaignFolder, own: Container[str]) -> None:
    """Keep the keys of the runs that the client knows as its user's own.

    Without its key a run is settled like a stranger's, with less evidence.
    """
    for run in folder.list_runs_without_cycle():
        if run.path.name in own:
            with contextlib.suppress(DbcheckError):
                run.remember()


def _require_other_machine(entry: Entry) -> None:
    """Raise UsageError if the switch cuts this very machine.

    A host that an earlier client left without power does not answer, and is not
    compared.
    """
    for each in entry.cut_in_turn:
        if each.power.guarded and (host := assemble.make_power_host(each)):
            with contextlib.suppress(HostError):
                require_other_machine(each.switched_host.title, host.identity())


class Worker(CutPermit):
    """The fleet's task that this process works for; it grants the permit to cut."""

    def __init__(self, channel: Channel) -> None:
        """Receive the job, then listen."""
        self._channel = channel
        self._answers: SimpleQueue[object] = SimpleQueue()
        self._is_lost = False
        self.job: Job
        self.folder: Path
        self.job, self.folder = unpack_message(channel.receive())
        threading.Thread(target=self._listen, name="from-worker", daemon=True).start()

    def send(self, message: object) -> None:
        """Send to the worker; if it is gone, this process is interrupted already."""
        with contextlib.suppress(OSError):
            self._channel.send(pack_message(message))

    def keeps(self, ended: Ended) -> bool:
        """Return True if the client has all that is stored, False without a worker.

        An answer to an earlier question may be on its way.
        """
        self.send(ended)
        while (answer := self._await_answer()) is not None:
            if isinstance(answer, Kept):
                return True
        return False

    def adapt_rig(self, rig: Rig) -> Rig:
        """Return *rig* for a fleet: it waits for a permit and sends what it stored."""
        node = replace(rig.site.writer, measured_depth=self.job.reached)
        return replace(
            rig,
            site=rig.site.with_writer(node),
            permit=self,
            store=self._store,
            before_load=chain_calls(self._store, rig.before_load),
        )

    def take(self) -> None:
        self._ask(Word.WANTS_PERMIT, Word.PERMIT_GRANTED)

    def give_back(self) -> None:
        self.send(Word.PERMIT_RETURNED)

    def _store(self) -> None:
        """Send the client all that the folder holds, before anything is cut."""
        self._ask(Word.STORE, Kept())

    def _ask(self, question: Word, wanted: object) -> None:
        interrupt.raise_if_interrupted()
        self.send(question)
        if self._await_answer() != wanted:
            raise FleetError("the worker is lost", id=ErrorId.FLEET_WORKER_LOST)

    def _await_answer(self) -> object:
        """Return the next answer, None from when the worker is lost."""
        return None if self._is_lost else self._answers.get()

    def _listen(self) -> None:
        with contextlib.suppress(OSError, EOFError, NotAMessage):
            while True:
                self._answers.put(unpack_message(self._channel.receive()))
        # Note the loss before the end is queued: an interrupt may keep the thread that
        # takes the end from noting it.
        self._is_lost = True
        self._answers.put(None)
        os.kill(os.getpid(), signal.SIGTERM)


class Reporting(PlainProgress):
    """Writes lines, which go to the worker's log, and sends what goes on."""

    def __init__(self, worker: Worker) -> None:
        super().__init__(make_progress_console())
        self._worker = worker
        self._sent_s = 0.0

    def phase(self, phase: Phase, detail: str) -> None:
        super().phase(phase, detail)
        self._worker.send(Status(phase.value, detail))

    def load(self, status: LoadStatus) -> None:
        super().load(status)
        if time.monotonic() - self._sent_s >= _STATUS_EVERY_S:
            self._sent_s = time.monotonic()
            shown = f"{status.acked:,} acked"
            self._worker.send(Status(Phase.LOAD.value, shown, status.rate))


if __name__ == "__main__":
    main()
