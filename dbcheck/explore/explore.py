"""Judges crash states until enough are judged, then reduces those that fail."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice

from dbcheck.explore.finding import Places, Reduction, describe_manner, group_by_manner
from dbcheck.explore.folder import Exploration, Line
from dbcheck.explore.labs import Labs
from dbcheck.explore.oracle import Acked, Oracle
from dbcheck.explore.states import Timeline, draw_states
from dbcheck.model.cut import CrashState
from dbcheck.model.explored import Finding, StateJudgement, StateResult
from dbcheck.model.verdict import Verdict
from dbcheck.ports.listener import Listener, Progress, Unit

FINDINGS_MAX = 12  # manners of failing that are reduced: the most frequent ones
_EDGE_US = 20_000  # before a task's ack: what it wrote is on its way


class Explorer:
    """Explores one recording."""

    def __init__(
        self,
        folder: Exploration,
        timeline: Timeline,
        acked: Acked,
        seed: int,
        listener: Listener,
    ) -> None:
        """seed: decides which states are judged, and in which order."""
        self._folder, self._timeline, self._acked = folder, timeline, acked
        self._seed, self._listener = seed, listener

    def judge(self, labs: Labs, lines: dict[str, Line], wanted: int) -> None:
        """Judge states until *wanted* are judged; store each, also in *lines*.

        lines: those that were judged before, by name.  One that could not be judged is
        tried again.
        """
        unclear = Verdict.INCONCLUSIVE
        done = {n for n, line in lines.items() if line.judgement.verdict is not unclear}
        coming = (
            partial(_judge_state, name, state)
            for name, state in islice(self._states(), wanted)
            if name not in done
        )
        self._report(lines, wanted)
        with self._folder.appending() as file:
            for line in labs.results(coming):
                self._folder.add(file, line)
                lines[line.name] = line
                self._report(lines, wanted)

    def _report(self, lines: Mapping[str, Line], wanted: int) -> None:
        failed = len(_select_failed(lines.values()))
        what = f"{failed:,} failed" if failed else "none failed"
        at = Progress(what, len(lines), wanted, Unit.STATES)
        self._listener.progress(at)

    def _states(self) -> Iterator[tuple[str, CrashState]]:
        stakes = [
            self._acked.count(moment.time_us)
            - self._acked.count(self._find_first_risk_us(number))
            for number, moment in enumerate(self._timeline.moments)
        ]
        tasks = self._acked.task_times_us()
        edges = [
            number
            for number, moment in enumerate(self._timeline.moments)
            if any(0 <= at - moment.time_us < _EDGE_US for at in tasks)
        ]
        return draw_states(self._timeline, stakes, edges, self._seed)

    def _find_first_risk_us(self, number: int) -> int:
        """Return the time of the first write that may be lost at a moment."""
        moment = self._timeline.moments[number]
        times = [
            recording.times_us[held.stable]
            for recording, held in zip(
                self._timeline.recordings, moment.drives, strict=True
            )
            if held.writes
        ]
        return min(times, default=moment.time_us)

    def groups(self, lines: Iterable[Line]) -> list[list[Line]]:
        """Return the failed states by the manner in which they fail.

        Only the FINDINGS_MAX manners of the most states: those that are reduced.
        """
        return group_by_manner(_select_failed(lines), self._timeline)[:FINDINGS_MAX]

    def findings(
        self, labs: Labs, groups: Sequence[Sequence[Line]], known: Sequence[Finding]
    ) -> list[Finding]:
        """Reduce a state of each group; store and return the findings, *known* first.

        A manner that is known keeps its finding, which gets the names of all states.
        """
        found = {describe_manner(each.smallest.judgement): each for each in known}
        last = max((each.number for each in known), default=0)
        jobs = []
        for group in groups:
            how = describe_manner(group[0].judgement)
            if how in found:
                names = tuple(line.name for line in group)
                found[how] = replace(found[how], states=names)
            else:
                last += 1
                jobs.append(
                    partial(self._reduce_group, last, group, labs.ending.is_set)
                )
        findings = list(found.values())
        self._folder.write_findings(findings)
        for finding in labs.results(jobs):
            self._folder.write_findings([finding])
            findings.append(finding)
            done = len(findings) - len(found)
            at = Progress("reduced", done, len(jobs), Unit.FINDINGS)
            self._listener.progress(at)
        return sorted(findings, key=lambda finding: finding.number)

    def _reduce_group(
        self,
        number: int,
        group: Sequence[Line],
        ended: Callable[[], bool],
        oracle: Oracle,
    ) -> Finding:
        """Reduce the first of the states that fail in one manner."""
        state, judged = group[0].state, group[0].judgement
        reduction = Reduction(oracle, self._timeline, ended)
        once_more = reduction.judged(state)
        again = describe_manner(once_more) == describe_manner(judged)
        smallest = reduction.reduce(state, describe_manner(judged)) if again else state
        found = reduction.judged(smallest) if again else judged
        return Finding(
            number=number,
            states=tuple(line.name for line in group),
            again=again,
            complete=not reduction.stopped,
            smallest=self.state_result(f"finding-{number}", smallest, found, oracle),
            tries=reduction.tries,
        )

    def state_result(
        self, name: str, state: CrashState, judged: StateJudgement, oracle: Oracle
    ) -> StateResult:
        """Return a judged state with what it lacks, by the files that a lab finds."""
        timeline = self._timeline
        cut_us = timeline.moments[state.moment].time_us
        places = Places(oracle.blocks(timeline.everything(state.moment)))
        lost = tuple(
            block
            for drive, parts in enumerate(timeline.lost(state))
            for part in parts
            for block in places.blocks(drive, timeline.recordings[drive], part, cut_us)
        )
        load_s = (cut_us - self._acked.first_us) / 1e6
        return StateResult(name, state, judged, load_s, lost)


def _select_failed(lines: Iterable[Line]) -> list[Line]:
    return [line for line in lines if line.judgement.verdict is Verdict.FAIL]


def _judge_state(name: str, state: CrashState, oracle: Oracle) -> Line:
    return Line(name, state, oracle.judge(state))
