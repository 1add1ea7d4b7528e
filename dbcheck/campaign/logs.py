"""The stored copies of a run's logs, read as one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from dbcheck.core.acks import AckArray
from dbcheck.core.history import SESSION_MAX
from dbcheck.core.records import LoadRecord, Manifest
from dbcheck.core.witnessed import LogFacts, Watermark
from dbcheck.errors import LogDamaged, RunFormatError
from dbcheck.ports.witness import LogReader
from dbcheck.runs import RunFolder


class StoredLogs:
    """Every log of a run; each call verifies what it reads, see ports.LogReader."""

    def __init__(
        self,
        run: RunFolder,
        reader: LogReader,
        manifest: Manifest,
        load: LoadRecord | None,
    ) -> None:
        """Read nothing yet; raise RunFormatError if *load* is of other logs."""
        self._run, self._reader, self._run_id = run, reader, manifest.run_id
        self._confirmed: Sequence[Watermark | None] = (None,) * manifest.ack_logs
        self._seen_number = manifest.ack_logs
        self._seen_confirmed = load.seen_watermark if load else None
        if load is not None:
            self._confirmed = load.watermarks
        if len(self._confirmed) != manifest.ack_logs:
            raise RunFormatError(
                f"{run.path}: load.json lists {len(self._confirmed)} witness logs,"
                f" manifest.json {manifest.ack_logs}",
                hint="Judge the run from the witness: reconcile --witness URL "
                "--run ID --target URL.",
            )

    def facts(self) -> list[LogFacts]:
        """Read all logs of acks and return what each holds."""
        return [
            self._reader.facts(
                self._run.acks_path(number), self._run_id, number, confirmed
            )
            for number, confirmed in enumerate(self._confirmed)
        ]

    def acks(self) -> Iterator[AckArray]:
        """Stream the acks of one log after the other.

        Those of a session come in the order in which they were received, as only one
        process had it; raise LogDamaged if two logs hold acks of a session.
        """
        log_of = np.full(SESSION_MAX + 1, -1)
        for number, confirmed in enumerate(self._confirmed):
            path = self._run.acks_path(number)
            for acks in self._reader.acks(path, self._run_id, number, confirmed):
                before = log_of[acks["session"]]
                if ((before >= 0) & (before != number)).any():
                    raise LogDamaged(f"{path} holds acks of another log's session")
                log_of[acks["session"]] = number
                yield acks

    def seen(self) -> Iterator[AckArray]:
        """Stream what the readers saw, in the form of acks, from the log after those.

        Each of them is a row that was read at acked_us, whether or not it was acked.
        """
        number = self._seen_number
        path = self._run.acks_path(number)
        yield from self._reader.acks(path, self._run_id, number, self._seen_confirmed)
