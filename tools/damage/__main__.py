"""The sweep: see the package."""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from tools.damage.servers import SETUPS
from tools.damage.sweep import NO_DAMAGE, Line, judged, sweep

ROOT = Path(__file__).resolve().parents[2]
DOCUMENT = ROOT / "docs" / "file-damage.md"
RECORDED = ROOT / "tests" / "recorded" / "file_damage.json"
_MARK = "<!-- sweep -->\n"
_MEMORY = Path("/dev/shm")
_CELL_CHARS = 160


def main(words: Sequence[str]) -> int:
    """Sweep the servers that are named, or all; return 1 if an innocent one fails."""
    parser = argparse.ArgumentParser("python -m tools.damage")
    parser.add_argument("server", nargs="*", help=f"of {', '.join(SETUPS)}")
    parser.add_argument("--kind", help="damage this kind of file alone")
    parser.add_argument("--record", type=Path, help="put what was found into this file")
    parser.add_argument(
        "--judge", action="store_true", help="judge what was recorded, start nothing"
    )
    chosen = parser.parse_args(words)
    lines = recorded() if chosen.judge else _swept(chosen.server, chosen.kind)
    lines = [judged(line) for line in lines]
    if chosen.record:
        found = [asdict(line) for line in lines]
        chosen.record.write_text(json.dumps(found, indent=1) + "\n")
    if chosen.judge:
        text = DOCUMENT.read_text()
        DOCUMENT.write_text(text[: text.index(_MARK) + len(_MARK)] + "\n" + page(lines))
    sys.stdout.write(page(lines))
    wrong = [one for one in lines if (one.damage, one.verdict) == (NO_DAMAGE, "FAIL")]
    return 1 if wrong else 0


def recorded() -> list[Line]:
    """Return the lines of the last sweep of everything."""
    return [Line(**one) for one in json.loads(RECORDED.read_text())]


def _swept(names: Sequence[str], kind: str | None) -> list[Line]:
    memory = _MEMORY if os.access(_MEMORY, os.W_OK) else None
    lines = []
    for name in names or SETUPS:
        with tempfile.TemporaryDirectory(prefix="dbcheck-", dir=memory) as base:
            for line in sweep(name, Path(base), kind):
                sys.stderr.write(
                    f"{line.product}, {line.kind}, {line.damage}: {line.verdict}\n"
                )
                lines.append(line)
    return lines


def page(lines: Sequence[Line]) -> str:
    """Return the counts of the verdicts, and a table."""
    counts = Counter((one.product, _group(one)) for one in lines)
    groups = sorted({group for _, group in counts})
    products = list(dict.fromkeys(one.product for one in lines))
    rows = [["server", *groups], ["---"] * (len(groups) + 1)]
    rows += [[name, *(str(counts[name, each]) for each in groups)] for name in products]
    table = [["server", "file or cause", "damage", "verdict", "why"], ["---"] * 5]
    table += [_row(one) for one in lines if one.verdict != "harmless"]
    table += [
        [product, kind, ", ".join(damages), "harmless", ""]
        for (product, kind), damages in _harmless(lines).items()
    ]
    return f"{_table(rows)}\n{_table(table)}"


def _group(line: Line) -> str:
    of = "cause outside of the data" if line.damage == NO_DAMAGE else "damage"
    return f"{of}: {line.verdict}"


def _harmless(lines: Sequence[Line]) -> dict[tuple[str, str], list[str]]:
    found: dict[tuple[str, str], list[str]] = {}
    for line in lines:
        if line.verdict == "harmless":
            found.setdefault((line.product, line.kind), []).append(line.damage)
    return found


def _row(line: Line) -> list[str]:
    why = f"{line.why}; {line.answer}" if line.answer else line.why
    return [line.product, line.kind, line.damage, line.verdict, _cell(why)]


def _cell(text: str) -> str:
    """Return *text* for a cell."""
    short = " ".join(text.split()).replace("|", "/")
    return short if len(short) <= _CELL_CHARS else f"{short[:_CELL_CHARS]}..."


def _table(rows: Sequence[Sequence[str]]) -> str:
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
