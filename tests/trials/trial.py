"""One trial: a cycle of a real client, a fault at a moment, and what became of it."""

from __future__ import annotations

import contextlib
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dbcheck.cycle.preflight.first_rows import WARM_ROWS
from dbcheck.lab.lab import Lab
from dbcheck.lab.spec import DriveSpec, LabSpec
from dbcheck.model.cut import PowerState
from tests.kit.lab_access import connect
from tests.kit.labs import workers_of
from tests.kit.rigs import TABLES
from tests.kit.waiting import wait_until
from tests.trials.faults import CLOCK_BACK_S, FAULTS, Fault, set_clock_back
from tests.trials.oracle import Facts, Said, complaints, verdict_complaints
from tests.trials.raw_log import RawLog, read_raw
from tests.trials.recorded import ENTRY, read_records
from tests.trials.witness_host import SmallDisk, WitnessHost

ROOT = Path(__file__).parents[2]
WORKLOAD = """
plan = "insert"
payload_bytes = [200]
sessions = 6
cut_after_s = [{0}, {0}]
"""
ENGINES = ("postgresql", "mariadb")
END_S = 120.0
SAME_ID = "20260102-030405-a1b2c3"  # of two that create a run at once
_CUT = "            cut  lab"  # what the client says when it cuts
_RUNS = {"run": "runs", "rival": "rival"}  # where the client so called has its run


@dataclass(frozen=True)
class TrialSpec:
    """What a seed decides, all times in seconds.

    strike_s: when the fault comes, since the first commit; the cut is due at cut_s.
    outage_s: how long the cable is out, if it is.
    window:   most acks of a process that may be unconfirmed.
    """

    seed: int
    fault: Fault
    engine: str
    lying: bool
    processes: int
    window: int
    cut_s: float
    strike_s: float
    outage_s: float
    coin: bool

    @classmethod
    def of(cls, seed: int) -> TrialSpec:
        """Draw; seeds in a row have every fault, engine and drive in turn."""
        draw = random.Random(seed)
        fault = FAULTS[seed % len(FAULTS)]
        cut_s = draw.uniform(1.0, 2.2)
        long, late = draw.random() < 0.1, draw.random() < 0.2
        return cls(
            seed,
            fault,
            ENGINES[seed % 2],
            seed // 2 % 2 == 1,
            fault.processes or draw.choice((1, 1, 2)),
            draw.choice((32, 200, 4096)),
            cut_s + fault.longer_s,
            draw.uniform(cut_s - 0.1, cut_s + 0.5) if late else draw.uniform(0, cut_s),
            draw.uniform(6.0, 20.0) if long else draw.uniform(0.5, 5.0),
            draw.random() < 0.5,
        )

    def __str__(self) -> str:
        drive = "lying" if self.lying else "honest"
        return f"{self.seed}-{self.fault.name}-{self.engine}-{drive}".replace(" ", "-")

    def rival(self) -> TrialSpec:
        """Return what another client draws, on another lab; its drive is honest."""
        (engine,) = set(ENGINES) - {self.engine}
        return replace(self, seed=self.seed + 1, engine=engine, lying=False)

    def lab_spec(self) -> LabSpec:
        """Return the lab that it needs."""
        drive = DriveSpec(kept_writes="torn", seed=self.seed)
        if self.lying:
            # What it loses is older than what makes a cut too idle to pass.
            drive = DriveSpec(personality="lying", destage_age_s=2.0)
        return LabSpec(self.engine, drive=drive)


class Trial:
    """A lab, a witness and a client, while one fault strikes."""

    def __init__(
        self,
        spec: TrialSpec,
        lab: Lab,
        host: WitnessHost,
        folder: Path,
        plant: str = "",
        rival: Lab | None = None,
    ) -> None:
        """Start the client.  rival: another one's lab, if the fault has another."""
        self.spec, self.lab, self.host, self._folder = spec, lab, host, folder
        self._name, self._record = "run", self._recorded("run")
        self._workload = folder / "trial.toml"
        self._workload.write_text(WORKLOAD.format(spec.cut_s))
        self._environment = os.environ | {
            "PYTHONPATH": str(ROOT),
            "TRIAL_RECORD": str(self._record),
            "TRIAL_SILENCE_S": str(spec.fault.silence_s),
            "TRIAL_CLOCK": str(host.clock),
            "TRIAL_PLANT": plant,
        }
        if spec.fault.rival:
            meeting = folder / "meeting"
            meeting.mkdir()
            self._environment |= {"TRIAL_MEET": str(meeting), "TRIAL_RUN_ID": SAME_ID}
        self.client = self._start("tests.trials.client", *self._run_words(), name="run")
        self._rival = rival
        self._loser: tuple[str, TrialSpec, Lab, subprocess.Popen[bytes]] | None = None
        self._others: list[tuple[str, subprocess.Popen[bytes]]] = []
        self._struck_in_time = False  # before the power was cut

    # ------------------------------------------------------------------ what it does

    def strike(self) -> None:
        """Let the load begin, and the fault come at its moment."""
        if self.spec.fault.rival:
            self._let_one_win()
        wait_until(self._loads, "the load begins")
        time.sleep(self.spec.strike_s)
        self._struck_in_time = _CUT not in self._said(self._name)
        self.spec.fault.strike(self)

    def workers(self) -> list[int]:
        """Return the processes of the load."""
        return workers_of(self.client.pid)

    def start_others(self) -> None:
        """Start two that want the run while its client has it."""
        run = str(self._run())
        target = ["--target", self.lab.target_url]
        elsewhere = ["--runs", str(self._folder / "others"), "--run", self._run().name]
        words = {
            "folder": ["reconcile", run, *target, *self.host.options],
            "id": ["reconcile", *elsewhere, *target, *self.host.options],
        }
        for name, others in words.items():
            self._others.append((name, self._start("dbcheck", *others, name=name)))

    def end(self) -> list[str]:
        """Wait for the client, go on where it ended, and let the oracle judge."""
        first = Said(self.client.wait(END_S), self._said(self._name), self._run())
        wait_until(lambda: not self.workers(), "the load's processes ended")
        found = self._told_complaints(first)
        self._mend()
        self._cut_and_restore(first)
        facts = self.facts()
        found += self._others_complaints(facts) + self._clock_complaints(facts)
        found += self._loser_complaints()
        if first.code >= 0:
            found += complaints(facts, first)
        for reconcile in [] if first.verdict else self._ways_to_reconcile():
            said = reconcile()
            found += complaints(facts, said)
            if not said.verdict:
                found.append(f"no verdict: {said.err}")
        return found

    def close(self) -> None:
        """End what still runs."""
        others = [child for _, child in self._others]
        for child in (self.client, *others, *(self._loser or ())[3:]):
            child.kill()
            child.wait()

    def facts(self) -> Facts:
        """Gather what the oracle wants to know."""
        return Facts(
            self.spec.lying,
            self.spec.window,
            read_records(self._record),
            self._logs(),
            self._rows(),
        )

    # -------------------------------------------------------------------- the client

    def _run_words(self) -> list[str]:
        spec = self.spec
        return [
            "run",
            *("--target", self.lab.target_url, *self.host.options),
            *("--power", f"lab:{self.lab.name}", "--workload", str(self._workload)),
            *("--window", str(spec.window), "--seed", str(spec.seed)),
            *("--processes", str(spec.processes), "--wait", "60"),
        ]

    def _recorded(self, name: str) -> Path:
        """Make the folder for what the client called *name* records."""
        folder = self._folder / f"record-{name}"
        folder.mkdir()
        return folder

    def _let_one_win(self) -> None:
        """Start another client, of another lab; who creates the run is the client."""
        assert self._rival is not None
        mine = "run", self.spec, self.lab, self.client
        meeting, record = self._folder / "meeting", self._recorded("rival")
        wait_until(lambda: any(meeting.iterdir()), "a client wants to create", 60)
        self._environment["TRIAL_RECORD"] = str(record)
        self.spec, self.lab = self.spec.rival(), self._rival
        words = [*self._run_words(), "--runs", str(self._folder / "rival")]
        self.client = self._start("tests.trials.client", *words, name="rival")
        its = "rival", self.spec, self.lab, self.client
        children = (mine[3], its[3])
        wait_until(
            lambda: any(child.poll() is not None for child in children), "one lost", 60
        )
        if its[3].poll() is None:
            self._loser, self._name, self._record = mine, "rival", record
        else:
            self._loser, (_, self.spec, self.lab, self.client) = its, mine

    def _start(self, module: str, *words: str, name: str) -> subprocess.Popen[bytes]:
        with (self._folder / f"{name}.err").open("wb") as err:
            return subprocess.Popen(
                [sys.executable, "-m", module, *words],
                cwd=self._folder,
                env=self._environment | {"DBCHECK_PASSWORD": self.lab.password},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=err,
            )

    def _said(self, name: str) -> str:
        return (self._folder / f"{name}.err").read_text()

    def _run(self) -> Path:
        return self._run_of(self._name)

    def _run_of(self, name: str) -> Path:
        (run,) = (self._folder / _RUNS[name]).iterdir()
        return run

    def _loads(self) -> bool:
        assert self.client.poll() is None, self._said(self._name)
        sizes = (path.stat().st_size for path in self._record.iterdir())
        return sum(sizes) > ENTRY.size * WARM_ROWS

    # ------------------------------------------------------------- after the fault

    def _mend(self) -> None:
        """Have the witness answer again."""
        disk = self.host.disk
        if isinstance(disk, SmallDisk):
            with contextlib.suppress(OSError):  # it is read-only, and can be read
                disk.make_room()
        self.host.bring_back()

    def _cut_and_restore(self, first: Said) -> None:
        """Cut if the client did not live to, and have the server back."""
        switch = self.lab.switch()
        if _CUT not in first.err:
            switch.cut()
        if switch.state() is PowerState.OFF:
            switch.restore()

    def _ways_to_reconcile(self) -> list[Callable[[], Said]]:
        """Return from where it is judged: the folder, the witness alone, or both."""
        ways = [self._reconcile, self._reconcile_elsewhere]
        if self.spec.coin:
            ways.reverse()
        return ways if self.client.returncode < 0 else ways[:1]

    def _reconcile(self) -> Said:
        return self._finish("again", self._run(), str(self._run()))

    def _reconcile_elsewhere(self) -> Said:
        run_id = self._run().name
        runs = self._folder / "elsewhere"
        words = ["--run", run_id, "--runs", str(runs)]
        return self._finish("elsewhere", runs / run_id, *words)

    def _finish(self, name: str, run: Path, *words: str) -> Said:
        target = ["--target", self.lab.target_url, "--wait", "30"]
        child = self._start(
            "dbcheck", "reconcile", *words, *target, *self.host.options, name=name
        )
        return Said(child.wait(END_S), self._said(name), run)

    def _told_complaints(self, first: Said) -> list[str]:
        """Say what a person should have been told of the fault, and was not."""
        fault, spec, found = self.spec.fault, self.spec, []
        if first.code == 4 and not any(words in first.err for words in fault.says):
            found.append(f"the error is another one: {first.err[-500:]}")
        if not fault.ends_load and first.code == 4:
            found.append(f"it should have gone on: {first.err[-500:]}")
        lagged = fault.name == "cable out and in" and spec.outage_s > 3.5
        if lagged and self._struck_in_time:
            for words in ("behind; the load waits for it", "confirms again"):
                if words not in first.err:
                    found.append(f"nobody was told that the witness {words!r}")
        return found

    def _others_complaints(self, facts: Facts) -> list[str]:
        """Say whether the others were refused, or told the truth if they came late."""
        found: list[str] = []
        for name, child in self._others:
            run = self._folder / "others" / self._run().name
            said = Said(child.wait(END_S), self._said(name), run)
            if said.verdict and name == "id":
                found += verdict_complaints(facts, said)
            elif said.code not in (2, 4) or "Traceback" in said.err:
                found.append(f"{name}: {said.code}, {said.err}")
        return found

    def _loser_complaints(self) -> list[str]:
        """Say what is wrong with a client whose run id another one has."""
        if self._loser is None:
            return []
        name, spec, lab, child = self._loser
        said = Said(child.wait(END_S), self._said(name), self._run_of(name))
        winner = self.spec, self.lab
        self.spec, self.lab = spec, lab
        try:
            found = [f"{one}: {said.err}" for one in self._loser_traces(said)]
            # Its own run can be judged by no other's log.
            judged = self._finish("lost", said.run, str(said.run))
        finally:
            self.spec, self.lab = winner
        if any((self._folder / f"record-{name}").iterdir()):
            found.append("a session of the loser was acked")
        if judged.verdict or "Traceback" in judged.err:
            found.append(f"the loser's run was judged: {judged.code}, {judged.err}")
        return found

    def _loser_traces(self, said: Said) -> Iterator[str]:
        """Say what the loser should have said, and what of it should not be there."""
        _, _, told = said.err.rpartition("dbcheck: ")
        error, _, hint = told.partition("\n")
        if said.code != 4 or "already exists" not in error or "Traceback" in said.err:
            yield f"the loser ended with {said.code}"
        if not hint.strip().endswith("."):
            yield "the loser is not told what to do"
        if self._rows_of(said):
            yield "the loser's rows are in the table"
        stored = self.host.folder / self._run().name / "manifest.json"
        if stored.read_bytes() != (self._run() / "manifest.json").read_bytes():
            yield "the witness has another manifest than the winner"

    def _clock_complaints(self, facts: Facts) -> list[str]:
        """Say in which log a clock that was set back did not go back.

        What is late may come behind all acks; the first log has a word after them.
        """
        spec = self.spec
        if spec.fault.strike is not set_clock_back or not self._struck_in_time:
            return []
        early = spec.strike_s < spec.cut_s - 0.5
        return [
            f"the witness's clock did not go back in log {number}"
            for number, log in facts.logs.items()
            if (early or not number)
            and max(log.clocks) - log.clocks[-1] <= -CLOCK_BACK_S * 1e6 / 2
        ]

    # ------------------------------------------------------------------- the oracle's

    def _logs(self) -> dict[int, RawLog]:
        folder = self.host.folder / self._run().name
        return {
            int(path.stem.partition("-")[2] or 0): read_raw(path.read_bytes())
            for path in folder.glob("acks*.log")
        }

    def _rows(self) -> Mapping[tuple[int, int], int] | None:
        return self._rows_of(Said(0, "", self._run()))

    def _rows_of(self, said: Said) -> Mapping[tuple[int, int], int] | None:
        epoch = said.json("manifest.json")["epoch"]
        table = TABLES[self.spec.engine]
        try:
            with contextlib.closing(
                connect(self.lab.target_url, self.lab.password)
            ) as connection:
                cursor = connection.cursor()
                cursor.execute(
                    f"select session, seq, id from {table} where epoch = %s", (epoch,)
                )
                rows: list[Any] = list(cursor.fetchall())
        except Exception:  # whatever a broken server makes the driver raise
            return None
        return {(int(session), int(seq)): int(i) for session, seq, i in rows}
