"""A run as it is stored: its logs, read as one, and where its rows are kept."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import Protocol

import numpy as np

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import LogDamaged, RunFormatError
from dbcheck.model.records import (
    AfterRecord,
    LoadRecord,
    Manifest,
    PreparedRecord,
    StoredRows,
)
from dbcheck.model.witness import Anchor, LogFacts, Watermark, find_anchor
from dbcheck.ports.witness import LogReader
from dbcheck.rows.acks import SESSION_MAX, AckArray
from dbcheck.rows.summary import AckSummary
from dbcheck.rows.survivors import Records
from dbcheck.runs.folder import RunFolder
from dbcheck.runs.stored import JUDGE_FROM_WITNESS


class RowStore(Protocol):
    """A run's records, and where its rows are kept; see RunFolder for each method."""

    def load(self) -> LoadRecord | None: ...

    def read_earlier_records(self) -> list[AfterRecord | PreparedRecord]: ...

    def is_own(self) -> bool: ...

    def log_bytes(self) -> tuple[int, ...]: ...

    def prepared(self) -> PreparedRecord | None: ...

    def write_prepared(self, prepared: PreparedRecord) -> None: ...

    def write_survivors(self, table: str, batches: Iterable[Records]) -> StoredRows: ...

    def survivors(self, table: str, rows: StoredRows) -> Iterator[Records]: ...

    def write_different(self, table: str, lines: Iterable[str]) -> None: ...


class StoredLogs:
    """Every log of a run; each call verifies what it reads.

    After facts(), acks() must read the same; a log that was changed is damaged.

    All times are on the client's clock, also those of sessions on other machines.
    """

    def __init__(
        self,
        run: RunFolder,
        reader: LogReader,
        manifest: Manifest,
        load: LoadRecord | None,
    ) -> None:
        """Read nothing yet; raise RunFormatError if *load* is of other logs."""
        self._run, self._reader, self._run_id = run, reader, manifest.run_id
        self._own_clocks, self._load = manifest.own_clocks, load
        self._confirmed: Sequence[Watermark | None] = (None,) * manifest.ack_logs
        self._seen_number = manifest.ack_logs
        self._seen_confirmed = load.seen_watermark if load else None
        self._first: _FirstReading | None = None
        if load is not None:
            self._confirmed = load.watermarks
        if len(self._confirmed) != manifest.ack_logs:
            raise RunFormatError(
                f"{run.path}: load.json lists {len(self._confirmed)} witness logs,"
                f" manifest.json {manifest.ack_logs}",
                id=ErrorId.RECORD_DAMAGED,
                hint=JUDGE_FROM_WITNESS,
            )

    def facts(self) -> list[LogFacts]:
        """Read all logs of acks and return what each holds.

        The newest ack of another machine has the earliest time at which it can have
        come.
        """
        first = _FirstReading()
        found = [self._facts(number, first) for number in range(len(self._confirmed))]
        first.watermarks = [facts.watermark for facts in found]
        self._first = first
        return found

    @property
    def summary(self) -> AckSummary:
        """The summary of the acks, of the reading of facts().

        Raise LogDamaged if a session's acks have a gap, or if two logs hold acks of a
        session.
        """
        if self._first is None:
            self.facts()
        assert self._first is not None
        if self._first.damage is not None:
            raise self._first.damage
        return self._first.summary

    @property
    def confirmed(self) -> Sequence[Watermark | None]:
        """The confirmed watermark of each log, by its number."""
        return *self._confirmed, self._seen_confirmed

    @cached_property
    def clock_set(self) -> str:
        """The reason why clocks of machines cannot be compared, "" if they can."""
        return self._anchor.was_set if self._own_clocks else ""

    @cached_property
    def late_us(self) -> int | None:
        """The most microseconds by which acks() dates an ack too late; None if unknown.

        An ack of another machine has the time at which it came to the witness.  It was
        unconfirmed for longer than it took to get there, so the oldest unconfirmed ack
        bounds the delay.
        """
        if not self._own_clocks:
            return 0
        if self._load is None or self.clock_set:
            return None
        return int(max(window.age_s for window in self._load.windows) * 1e6)

    def acks(self) -> Iterator[AckArray]:
        """Stream the acks of one log after the other.

        The acks of a session come in the order in which they were received, as only one
        process had the session.  Raise LogDamaged if two logs hold acks of a session.
        """
        first, owners = self._first, _Owners()
        confirmed_by_log = self._confirmed if first is None else first.watermarks
        for number, confirmed in enumerate(confirmed_by_log):
            path = self._run.acks_path(number)
            by_witness = self._is_far(number)
            for acks in self._reader.acks(
                path, self._run_id, number, confirmed, by_witness=by_witness
            ):
                if by_witness:
                    acked_us = acks["acked_us"] + self._anchor.most_us
                    acks["acked_us"] = np.maximum(acked_us, 0)
                owners.note(acks, number, path)
                if first is not None:
                    first.require_same(acks, path)
                yield acks

    def seen(self) -> Iterator[AckArray]:
        """Stream the rows that the readers saw, from the log after the logs of acks.

        Each has the form of an ack, with the time of the reading as acked_us, whether
        or not the row was acked.
        """
        number = self._seen_number
        path = self._run.acks_path(number)
        yield from self._reader.acks(path, self._run_id, number, self._seen_confirmed)

    def _is_far(self, number: int) -> bool:
        return self._own_clocks and number > 0

    def _facts(self, number: int, first: _FirstReading | None = None) -> LogFacts:
        path, confirmed = self._run.acks_path(number), self._confirmed[number]
        is_far = self._is_far(number)
        take = partial(first.take, number=number, path=path) if first else None
        facts = self._reader.facts(
            path, self._run_id, number, confirmed, by_witness=is_far, take=take
        )
        if not is_far or facts.newest_us is None:
            return facts
        newest_us = max(0, facts.newest_us + self._anchor.least_us)
        return replace(facts, newest_us=newest_us)

    @cached_property
    def _anchor(self) -> Anchor:
        """The pair of readings that converts the witness's clock to the client's.

        Raise LogDamaged if the client's own log lacks it: the client notes its clock
        there before the first session commits.
        """
        facts = self._facts(0)
        events = list(zip(facts.events, facts.events_us, strict=True))
        noted_us: Mapping[str, int] = self._load.noted_us if self._load else {}
        anchor = find_anchor(events, noted_us)
        if anchor is None:
            raise LogDamaged(
                f"the witness log is damaged: {self._run.acks_path(0)} lacks what dates"
                " the acks of the other logs",
                id=ErrorId.WITNESS_LOG_DAMAGED,
            )
        return anchor


class _Owners:
    """The log that holds the acks of each session."""

    def __init__(self) -> None:
        self._log_of = np.full(SESSION_MAX + 1, -1)

    def note(self, acks: AckArray, number: int, path: Path) -> None:
        """Note that log *number*, the file *path*, holds *acks*.

        Raise LogDamaged if another log holds acks of their sessions.
        """
        before = self._log_of[acks["session"]]
        if ((before >= 0) & (before != number)).any():
            raise LogDamaged(
                f"the witness log is damaged: {path} holds acks of another"
                " log's session",
                id=ErrorId.WITNESS_LOG_DAMAGED,
            )
        self._log_of[acks["session"]] = number


class _FirstReading:
    """What the first reading of all logs showed.

    watermarks: of each log as a whole.
    damage: why the acks prove nothing, None if they are sound.  It counts only if acks
            are needed: not of a server that did not come back.
    """

    def __init__(self) -> None:
        self.summary = AckSummary()
        self.watermarks: Sequence[Watermark] = ()
        self.damage: LogDamaged | None = None
        self._owners = _Owners()

    def take(self, acks: AckArray, *, number: int, path: Path) -> None:
        """Take in the next acks of log *number*, the file *path*."""
        if self.damage is not None:
            return
        try:
            self._owners.note(acks, number, path)
            self.summary.add(acks)
        except LogDamaged as error:
            self.damage = error

    def require_same(self, acks: AckArray, path: Path) -> None:
        """Raise LogDamaged if the first reading did not have *acks*.

        That nothing is missing or changed, the watermarks show at the log's end; that
        its acks have no gap, the order of each session's acks.
        """
        if self.damage is not None:
            return
        if (acks["seq"] > self.summary.counts[acks["session"]]).any():
            raise LogDamaged(
                f"the witness log is damaged: {path} was changed while it was judged",
                id=ErrorId.WITNESS_LOG_DAMAGED,
            )
