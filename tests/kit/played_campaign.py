"""Plays the process of a campaign: python -m tests.kit.played_campaign FD.

The name of its target says what it does, a word after the other:

    cut     has its turn, stores a run and its result, ends its turn
    hold    has its turn, and keeps it
    wait    waits until there is a file "go" beside the client's folders
    talk    sends as many messages as DBCHECK_TEST_TALK says, with no pause
    die     writes a line and ends without another word
"""

from __future__ import annotations

import os
import signal
import sys
from dataclasses import replace
from pathlib import Path

from dbcheck.base.processes import Channel
from dbcheck.campaign.folder import CampaignFolder, Cycle
from dbcheck.fleet.messages import Ended, Status
from dbcheck.model.verdict import CycleVerdict
from dbcheck.runner.campaign_child import Worker
from dbcheck.runs.folder import RunFolder
from tests.kit.samples import MANIFEST
from tests.kit.waiting import wait_until

GO = "DBCHECK_TEST_GO"  # names the file
TALK = "DBCHECK_TEST_TALK"


def main() -> None:
    signal.signal(signal.SIGTERM, lambda *_: os._exit(7))
    worker = Worker(Channel.inherited(int(sys.argv[1])))
    folder = CampaignFolder.open(worker.folder)
    for word in worker.job.name.split("-")[1:]:
        worker.send(Status(word, ""))
        if word == "die":
            sys.stderr.write("the last words\n")
            sys.stderr.flush()
            os._exit(3)
        if word == "talk":
            for number in range(int(os.environ[TALK])):
                worker.send(Status(word, str(number)))
        if word == "wait":
            wait_until(Path(os.environ[GO]).exists, "go")
        if word in ("cut", "hold"):
            worker.take()
        if word == "cut":
            _store(worker, folder)
            worker.give_back()
    worker.keeps(Ended())


def _store(worker: Worker, folder: CampaignFolder) -> None:
    number = len(folder.cycles()) + 1
    name = f"20261125-00000{number}-000000"
    run = RunFolder.create(folder.runs, replace(MANIFEST, run_id=name)).path
    (run / "acks.log").write_bytes(os.urandom(600_000))
    worker._store()
    verdict = CycleVerdict.PASS
    folder.add(Cycle(number, run.name, "steady", 1.0, verdict, "it is there", ""))


if __name__ == "__main__":
    main()
