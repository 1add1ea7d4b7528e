"""Stores the results of a soak, and writes their summary into a document."""

from __future__ import annotations

import platform
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from dbcheck.model.verdict import compute_loss_ppm_max, format_percent_up
from tools.soak.items import Result, is_tests

BEGIN, END = "<!-- soak: begin -->", "<!-- soak: end -->"
VERDICTS = ("PASS", "FAIL", "INCONCLUSIVE")


def read(file: Path) -> list[Result]:
    """Return the results in *file*; a line that a killed process tore is left out."""
    lines = file.read_bytes().splitlines() if file.exists() else []
    return list(_decoded(lines))


def _decoded(lines: Iterable[bytes]) -> Iterator[Result]:
    for line in lines:
        try:
            yield msgspec.json.decode(line, type=Result)
        except msgspec.DecodeError:
            continue


def add(file: Path, result: Result) -> None:
    """Append a result; whatever a killed process tore ends with its own line."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("ab") as out:
        torn = out.tell() and not file.read_bytes().endswith(b"\n")
        out.write((b"\n" if torn else b"") + msgspec.json.encode(result) + b"\n")


def summary(results: Sequence[Result], machine: str) -> list[str]:
    """Return the lines that a document gets."""
    cuts = [one for one in results if not is_tests(one)]
    tests = [one for one in results if is_tests(one)]
    count = sum(sum(one.verdicts.values()) for one in cuts)
    wrong = sum(len(one.wrong) for one in results)
    first = f"{len(results)} items, {count} cuts, {wrong} unexpected, {machine}."
    if count and not wrong:
        bound = format_percent_up(compute_loss_ppm_max(0, count))
        first += f" At most {bound} of such cuts are judged wrongly (95% confidence)."
    wheres = sorted({one.where for one in cuts})
    lines = [first, "", *_table(("storage", *wheres), _cut_rows(cuts, wheres))]
    tests_heads = ("tests", "runs", "passed", "skipped", "failed")
    lines += ["", *_table(tests_heads, _rows(tests))]
    for one in results:
        lines += [f"- item {one.number}, {one.kind}: {said}" for said in one.wrong]
    return lines


def _table(heads: Sequence[object], rows: Iterable[Sequence[object]]) -> list[str]:
    lines = (heads, ["---"] * len(heads), *rows)
    return [f"| {' | '.join(map(str, cells))} |" for cells in lines]


def _cut_rows(
    cuts: Sequence[Result], wheres: Sequence[str]
) -> Iterator[Sequence[object]]:
    """Yield a row for each kind of storage: the verdicts on each server."""
    found = _grouped(cuts)
    for kind in sorted({one.kind for one in cuts}):
        yield kind, *(_counted(found.get((kind, where), Counter())) for where in wheres)


def _counted(seen: Counter[str]) -> str:
    said = [f"{seen[name]} {name}" for name in VERDICTS if seen[name]]
    return ", ".join(said) or "-"


def _rows(tests: Sequence[Result]) -> Iterator[Sequence[object]]:
    for kind in sorted({one.kind for one in tests}):
        own = [one for one in tests if one.kind == kind]
        seen = Counter[str]()
        for one in own:
            seen.update(one.verdicts)
        failed = seen["failed"] + seen["error"] + seen["errors"]
        yield kind, len(own), seen["passed"], seen["skipped"], failed


def _grouped(cuts: Iterable[Result]) -> dict[tuple[str, str], Counter[str]]:
    found: dict[tuple[str, str], Counter[str]] = {}
    for one in cuts:
        found.setdefault((one.kind, one.where), Counter()).update(one.verdicts)
    return found


def this_machine(now: datetime | None = None) -> str:
    """Return when and on what a summary was made."""
    day = f"{now or datetime.now(UTC):%Y-%m-%d}"
    kernel, _, _ = platform.release().partition("-")
    return f"until {day}, on Linux {kernel} ({platform.machine()})"


_MARKED = re.compile(f"{re.escape(BEGIN)}.*?{re.escape(END)}", re.S)


def require_marks(document: Path) -> None:
    """Raise ValueError unless *document* has a place for a summary."""
    if len(_MARKED.findall(document.read_text("utf-8"))) != 1:
        raise ValueError(f"{document} has no {BEGIN} with its {END}")


def put_into(document: Path, lines: Sequence[str]) -> None:
    """Put a summary between the marks of *document*."""
    new = "\n".join((BEGIN, *lines, END))
    text = document.read_text("utf-8")
    document.write_text(_MARKED.sub(lambda _: new, text), "utf-8")
