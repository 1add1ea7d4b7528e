"""Measures the time to recover in a cycle; it never fails the cycle.

Nothing is committed before the server is gone: a commit flushes the log, which has the
commits of the load as well.  See docs/decisions/time-to-recover.md.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping
from dataclasses import replace
from types import TracebackType
from typing import Self

from dbcheck.base.errors import DbcheckError, EngineError
from dbcheck.base.system import now_us
from dbcheck.cycle.host import read_client_clocks
from dbcheck.cycle.rig import Rig
from dbcheck.model.outage import INTERRUPTED, OutageRecord
from dbcheck.model.records import Manifest
from dbcheck.model.server import ServerFacts, find_difference_of_servers
from dbcheck.outage.process import Answer, Job, ProbeProcess
from dbcheck.ports.engine import Engine
from dbcheck.ports.feature import Feature
from dbcheck.ports.listener import Phase
from dbcheck.rows.table import OUTAGE
from dbcheck.runs.folder import RunFolder

ROWS_MAX = 10_000  # a table with more is dropped before the load, and made anew
# After the rows were read, a commit that lasts is waited for: what leads clients to the
# new writer, such as a proxy, may take longer than the reading.
LASTING_S = 30.0
SHOWN_S = 2.0  # a longer wait is shown
POLL_S = 0.5
NOT_MEASURED = "the time to recover is not measured: {why}"


def prepare_outage_table(rig: Rig, manifest: Manifest) -> str:
    """Make the table of the probes; return why there are to be none, "" if there are.

    Rows of earlier cycles stay, up to ROWS_MAX.  Never raises an EngineError.
    """
    engine, server = rig.site.writer.engine, manifest.writer.facts
    if manifest.control:
        return "a control is not measured"
    if not engine.has(Feature.CLIENT):
        return "no client's commit can be tried on this kind of server"
    why = ""
    try:
        facts = engine.prepare([OUTAGE], server=server)[OUTAGE.name]
        if sum(facts.rows_by_epoch.values()) > ROWS_MAX:
            engine.discard([OUTAGE], server=server)
            engine.prepare([OUTAGE], server=server)
    except EngineError as error:
        why = f"its table cannot be made: {error}"
    if why := why or _explain_other_server(rig, manifest):
        rig.listener.phase(Phase.PREFLIGHT, NOT_MEASURED.format(why=why))
    return why


def _explain_other_server(rig: Rig, manifest: Manifest) -> str:
    """Explain that the clients' address leads to none of the nodes, "" if it does.

    Nothing of dbcheck's may be committed to a server that is not under test.
    """
    if rig.client is None:
        return ""
    try:
        found = rig.client.facts().identity
    except EngineError as error:
        return f"the address of the clients does not answer: {error}"
    differences = [
        find_difference_of_servers(node.facts.identity, found)
        for node in (manifest.writer, *manifest.nodes.values())
    ]
    if not all(differences):
        return ""
    return (
        f"{rig.client.target}, the address of the clients, leads to another server:"
        f" {differences[0]}"
    )


def choose_addresses(rig: Rig) -> Mapping[str, Engine]:
    """Return where clients commit: a node's name, or "" for their address -> engine."""
    if rig.client is not None:
        return {"": rig.client}
    return {name: node.engine for name, node in rig.site.nodes.items()}


class OutageWatch:
    """Has a process commit from when the server is gone until the rows were read.

    A context manager: what is known is stored at its end, whatever ended the cycle.
    """

    def __init__(
        self, rig: Rig, run: RunFolder, manifest: Manifest, not_begun: str = ""
    ) -> None:
        """not_begun: see OutageRecord."""
        self._rig, self._run, self._manifest = rig, run, manifest
        self._not_begun = not_begun
        self._restored_us: int | None = None
        self._process: ProbeProcess | None = None
        self._is_done = self._is_wanted = False

    def __enter__(self) -> Self:
        """Start the process; it tries nothing yet."""
        if not self._not_begun:
            job = Job(choose_addresses(self._rig), self._manifest.epoch)
            self._process = ProbeProcess(job)
            try:
                self._process.await_start()
            except BaseException:
                self._process.kill()
                raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """End the process; store that the time is not known, unless it is stored."""
        try:
            if self._is_wanted and not self._is_done:
                self._store(OutageRecord(not_begun=INTERRUPTED))
        finally:
            if self._process is not None:
                self._process.kill()

    def note_gone(self) -> None:
        """Have the tries begin: the server is gone.

        Not in a group all of whose nodes were cut: a commit before all are back may let
        a member in that has other rows under the same GTIDs.
        """
        self._is_wanted = True
        promise = self._manifest.promise
        if self._manifest.site.is_group and promise is not None and promise.cuts_all:
            return
        self.begin()

    def begin(self) -> None:
        """Have the tries begin, if they have not."""
        if self._process is not None and self._is_wanted:
            self._process.begin()

    def note_restored(self) -> None:
        """Note that the switch has just reported that the power is back."""
        self._restored_us = now_us()

    def finish(self, facts: ServerFacts | None) -> None:
        """End the tries, see which acks lasted, and store it; idempotent.

        facts: of the server whose rows were read; None if none was.
        """
        if self._is_done or not self._is_wanted:
            return
        if self._process is None:
            self._store(OutageRecord(not_begun=self._not_begun))
            return
        if facts is not None:
            self._await_lasting(facts)
        answer = self._process.end()
        if answer is None:
            self._store(OutageRecord(not_begun=self._process.failure))
            return
        record = self._make_record(answer)
        if facts is None:
            record = replace(record, unread="no row was read after the cut")
        else:
            record = self._with_rows(record, facts)
        self._store(record)

    def _await_lasting(self, facts: ServerFacts) -> None:
        """Wait until an ack has lasted, at most LASTING_S."""
        assert self._process is not None
        began_s, is_shown = time.monotonic(), False
        while (waited_s := time.monotonic() - began_s) < LASTING_S:
            answer = self._process.show()
            if answer is None or answer.began_us is None:
                return
            if any(each.acks for each in answer.probed):
                record = self._with_rows(self._make_record(answer), facts)
                if record.lasting or record.unread:
                    return
            if all(each.given_up for each in answer.probed):
                return
            if waited_s > SHOWN_S and not is_shown:
                text = f"up to {LASTING_S:.0f} s for a commit at the clients' address"
                self._rig.listener.phase(Phase.WAITING, text)
                is_shown = True
            time.sleep(POLL_S)

    def _make_record(self, answer: Answer) -> OutageRecord:
        return OutageRecord(
            began_us=answer.began_us,
            ended=read_client_clocks(),
            probed=answer.probed,
            by_clients=self._rig.client is not None,
            gaps=answer.gaps,
            restored_us=self._restored_us,
        )

    def _with_rows(self, record: OutageRecord, facts: ServerFacts) -> OutageRecord:
        """Return *record* with which acks lasted on the server of *facts*."""
        keys: list[tuple[int, int]] = []
        engine, epoch = self._rig.site.reader.engine, self._manifest.epoch
        try:
            for _, batch in engine.survivors([OUTAGE], server=facts):
                records = batch.records[batch.records["epoch"] == epoch]
                columns = (records[name].tolist() for name in ("session", "seq"))
                keys += zip(*columns, strict=True)
        except DbcheckError as error:
            why = f"the rows of the probes could not be read: {error}"
            return replace(record, unread=why)
        return record.with_rows(keys)

    def _store(self, record: OutageRecord) -> None:
        self._is_done = True
        with contextlib.suppress(DbcheckError):
            self._run.write_outage(record)
