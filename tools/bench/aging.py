"""Rows/s of filling the ledger before a load, beside the engine's own bulk load.

The engine's client loads the same rows from a file that was made before: psql by a
binary COPY, mysql by INSERTs of about a megabyte, in one transaction.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.console import Console
from sqlalchemy.engine import make_url

from dbcheck.config import workload_file
from dbcheck.engines.registry import open_engine
from dbcheck.lab.lab import Lab, list_missing
from dbcheck.lab.spec import LabSpec
from dbcheck.rows.fill import Fill
from dbcheck.rows.schedule import Schedule
from dbcheck.rows.table import LEDGER
from tools.bench.shown import SPREAD, console, spread, table

SMALL = (128,)
SEED, EPOCH = 7, 2**61 + 5
_COLUMNS = "(epoch, session, seq, part, payload, checksum)"
_STATEMENT_BYTES = 1 << 20  # as mysqldump writes them
_ESCAPED = (
    (b"\\", b"\\\\"),
    (b"\0", b"\\0"),
    (b"'", b"\\'"),
    (b"\n", b"\\n"),
    (b"\r", b"\\r"),
    (b"\x1a", b"\\Z"),
)


def main(words: Sequence[str]) -> None:
    """Run every pair and print a table."""
    parser = argparse.ArgumentParser("tools.bench aging", description=__doc__)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--rows", type=int, default=500_000)
    parser.add_argument("--engine", action="append")
    given = parser.parse_args(words)
    shown = console()
    for engine in given.engine or ("postgresql", "mariadb"):
        spec = LabSpec(engine, cut="process")
        if lacking := list_missing(spec):
            shown.print(f"{engine} is left out: {'; '.join(lacking)}")
            continue
        usual = tuple(workload_file.load("insert").payload_bytes)
        with (
            tempfile.TemporaryDirectory(prefix="dbcheck-bench-") as folder,
            Lab.start(spec, Path(folder) / "lab") as lab,
        ):
            for sizes, rows in ((SMALL, given.rows), (usual, given.rows // 5)):
                fill = Fill(Schedule(SEED, EPOCH, sizes), rows)
                _compare(lab, fill, Path(folder) / "rows", given.pairs, shown)


def _compare(lab: Lab, fill: Fill, file: Path, pairs: int, shown: Console) -> None:
    """Print a table for one server with one kind of rows."""
    words = _written(lab, fill, file)
    ours: list[float] = []
    theirs: list[float] = []
    for number in range(pairs):
        for is_ours in (True, False) if number % 2 else (False, True):
            (ours if is_ours else theirs).append(
                _timed(lab, fill, words, file, is_ours=is_ours)
            )
        shown.print(f"dbcheck {ours[-1]:.2f} s, {words[0]} {theirs[-1]:.2f} s")
    sizes = fill.schedule.payload_bytes
    size_range = f"{min(sizes)}..{max(sizes)}"
    title = f"{lab.spec.engine}: {fill.rows:,} rows of {size_range} bytes"
    result = table(title, "", *SPREAD)
    for name, times in (("dbcheck", ours), (words[0], theirs)):
        result.add_row(f"{name}, rows/s", *spread([fill.rows / s for s in times], 0))
    ratios = [their / our for our, their in zip(ours, theirs, strict=True)]
    result.add_row(f"rows/s beside {words[0]}", *spread(ratios))
    shown.print(result)


def _timed(
    lab: Lab, fill: Fill, words: Sequence[str], file: Path, *, is_ours: bool
) -> float:
    """Load into a new table; return seconds until the last commit."""
    engine = open_engine(lab.target_url, lab.password)
    engine.drop()
    engine.prepare((LEDGER,))
    engine.checkpoint()
    environment = os.environ | {"PGPASSWORD": lab.password, "MYSQL_PWD": lab.password}
    began = time.monotonic()
    if is_ours:
        for _ in engine.fill(LEDGER, fill):
            pass
    else:
        with file.open("rb") as rows:
            subprocess.run(words, env=environment, stdin=rows, check=True)
    seconds = time.monotonic() - began
    facts = engine.prepare((LEDGER,))[LEDGER.name]
    if facts.rows_by_epoch != {EPOCH: fill.rows}:
        raise SystemExit(f"not the rows that were sent: {facts}")
    return seconds


def _written(lab: Lab, fill: Fill, file: Path) -> list[str]:
    """Write the rows as the engine's client loads them; return its command line."""
    to = make_url(lab.target_url)
    where = ["-h", str(to.host)]
    engine = open_engine(lab.target_url, lab.password)
    engine.drop()
    engine.prepare((LEDGER,))
    if lab.spec.engine == "postgresql":
        for _ in engine.fill(LEDGER, fill):
            pass
        where += ["-p", str(to.port), "-U", str(to.username), "-d", str(to.database)]
        columns = f"{_COLUMNS[1:-1]}"
        select = f"select {columns} from dbcheck.ledger order by id"
        unload = f"\\copy ({select}) to '{file}' (format binary)"
        environment = os.environ | {"PGPASSWORD": lab.password}
        subprocess.run(
            ["psql", "-q", *where, "-c", unload], env=environment, check=True
        )
        load = f"copy dbcheck.ledger {_COLUMNS} from stdin (format binary)"
        return ["psql", "-q", *where, "-c", load]
    with file.open("wb") as out:
        out.write(b"set autocommit = 0;\n")
        for statement in _statements(fill):
            out.write(statement)
        out.write(b"commit;\n")
    where += ["-P", str(to.port), "-u", str(to.username), str(to.database)]
    return ["mysql", "--binary-mode", *where]


def _statements(fill: Fill) -> Iterator[bytes]:
    """Yield INSERTs of about a megabyte."""
    begin = f"insert into ledger {_COLUMNS} values ".encode()
    lines: list[bytes] = []
    size = 0
    for line in _lines(fill):
        lines.append(line)
        size += len(line)
        if size >= _STATEMENT_BYTES:
            yield begin + b",".join(lines) + b";\n"
            lines, size = [], 0
    if lines:
        yield begin + b",".join(lines) + b";\n"


def _lines(fill: Fill) -> Iterator[bytes]:
    names = ("epoch", "session", "seq", "part", "checksum")
    for numbers in fill.transactions():
        for block in fill.blocks(numbers):
            columns = (block.columns[name].tolist() for name in names)
            rows = zip(*columns, block.payloads, strict=True)
            for epoch, session, seq, part, checksum, payload in rows:
                content = payload.tobytes()
                for raw, escaped in _ESCAPED:
                    content = content.replace(raw, escaped)
                key = b"%d,%d,%d,%d" % (epoch, session, seq, part)
                yield b"(%b,_binary'%b',%d)" % (key, content, checksum)
