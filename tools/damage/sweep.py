"""Damages a file, starts the server, and judges what it logged."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

from dbcheck.agent.host import log as server_log
from dbcheck.base.errors import LabError
from dbcheck.hosts.host import LOG_BYTES_MAX
from dbcheck.judge.absence import judge_absence
from dbcheck.model.host import LogTail
from dbcheck.server_log.startlog import read_known_lines
from tests.kit.cases import case, loaded
from tests.kit.host_samples import BEFORE, after
from tests.kit.lab_access import connect
from tools.damage.innocent import CAUSES
from tools.damage.servers import ROWS, SETUPS, Prepared, prepared

READY_S = 25.0  # a server that recovers nothing much
_SHOWN_CHARS = 200
_ALIKE_MAX = 2
_NOT_TO_SHOW = ("NOTE", "LOG", "SYSTEM")


def _zero(file: Path, first: int) -> None:
    """Overwrite *file* with zeros from byte *first* on."""
    with file.open("r+b") as stream:
        stream.seek(first)
        stream.write(bytes(file.stat().st_size - first))


DAMAGES: Mapping[str, Callable[[Path], None]] = {
    "empty": lambda file: os.truncate(file, 0),
    "half": lambda file: os.truncate(file, file.stat().st_size // 2),
    "zeros": lambda file: _zero(file, 0),
    "zeros at its end": lambda file: _zero(file, file.stat().st_size // 2),
    "gone": lambda file: file.unlink(),
}
NO_DAMAGE = "innocent"


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the table.

    damage:  NO_DAMAGE if the file, or the cause, is not the data's fault.
    verdict: FAIL or INCONCLUSIVE, of a server that takes no queries; "rows" if it took
             some, and rows are lost or cannot be read; "harmless".
    why:     what dbcheck says, or what reading the rows gave.
    log:     what the server logged, as far as it matters.
    answer:  what the client was answered that could not log in.
    """

    product: str
    kind: str
    damage: str
    verdict: str
    why: str
    log: str = ""
    answer: str = ""


def sweep(name: str, base: Path, only: str | None) -> Iterator[Line]:
    """Yield a line for each kind of file and damage, and for each innocent cause."""
    with prepared(SETUPS[name], base) as made:
        for kind in made.setup.kinds:
            for damage in DAMAGES:
                if only in (None, kind) and (line := damaged(made, kind, damage)):
                    yield line
        for what in CAUSES[name]:
            if only in (None, what):
                yield kept_from_starting(name, made, what)


def damaged(made: Prepared, kind: str, damage: str) -> Line | None:
    """Return what comes of a damaged file, None if there is none to be damaged so."""
    made.restore()
    file = made.file(kind)
    if file is None:
        return None
    if damage != "gone" and (file.is_symlink() or not file.stat().st_size):
        return None
    DAMAGES[damage](file)
    return judged(_started(made, kind, damage))


def kept_from_starting(name: str, made: Prepared, what: str) -> Line:
    """Return what comes of an innocent cause; name: of the server, as in SETUPS."""
    made.restore()
    with CAUSES[name][what](made):
        return judged(_started(made, what, NO_DAMAGE))


def _started(made: Prepared, kind: str, damage: str) -> Line:
    """Start the server; return what came of it."""
    server, line = made.server, Line(made.setup.product, kind, damage, "", "")
    path = str(server.log_file)
    marks = server_log.mark_log(path)
    try:
        ready = server.begin(READY_S)
        rows = _read(made) if ready else ""
    except LabError:
        ready, rows = False, ""
    finally:
        server.kill()
    log = _trimmed(server_log.read_since(path, marks, LOG_BYTES_MAX)["text"])
    if ready and "cannot log in" not in rows:
        return replace(line, verdict="rows" if rows else "harmless", why=rows, log=log)
    return replace(line, log=log, answer=rows if ready else "")


def _trimmed(log: str) -> str:
    """Return what of *log* the tables know, and what the server complains of.

    Of lines that differ in numbers alone, the first two; without this sweep's folder.
    """
    kept, seen = [], Counter[str]()
    for line in read_known_lines(log):
        alike = re.sub(r"[0-9]+", "", line.message)
        seen[alike] += 1
        matters = line.entry is not None or line.severity not in _NOT_TO_SHOW
        if matters and seen[alike] <= _ALIKE_MAX:
            kept.append(re.sub(r"/[^'\"\s]*/dbcheck-\w+/", "/srv/", line.raw) + "\n")
    return "".join(kept)


def _read(made: Prepared) -> str:
    """Return what is wrong with the rows, "" if nothing is."""
    server = made.server
    try:
        connection = connect(server.url, server.password)
    except Exception as error:
        return f"cannot log in: {error}"
    try:
        with closing(connection):
            cursor = connection.cursor()
            for query in made.setup.reads:
                cursor.execute(query)
                found = [tuple(row) for row in cursor.fetchall()]
            cursor.execute("insert into t values (-1, 'c')")
    except Exception as error:
        return " ".join(str(error).split())[:_SHOWN_CHARS]
    ((rows, values, far),) = found
    if (rows, values, far) == (ROWS, 2, made.setup.far):
        return ""
    return f"{rows} of {ROWS} rows, {far} of {made.setup.far} in the other table"


def judged(line: Line) -> Line:
    """Return *line* with dbcheck's verdict, if the server took no queries."""
    if line.verdict in ("harmless", "rows"):
        return line
    host = replace(after(), log=LogTail(line.log, False, False))
    cut = case(BEFORE, host, load=loaded(), off_s=15.0)
    found = judge_absence(cut, line.answer)
    verdict = "FAIL" if found.failure else "INCONCLUSIVE"
    return replace(line, verdict=verdict, why=found.failure or found.doubt)
