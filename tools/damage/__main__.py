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
from tools.damage.sweep import DAMAGES, NO_DAMAGE, Line, judged, sweep

ROOT = Path(__file__).resolve().parents[2]
DOCUMENT = ROOT / "docs" / "file-damage.md"
RESULTS = Path(__file__).with_name("results.md")
RECORDED = ROOT / "tests" / "recorded" / "file_damage.json"
_MARK = "<!-- sweep -->\n"
_VERDICTS = ("FAIL", "INCONCLUSIVE", "rows", "harmless")
_MEMORY = Path("/dev/shm")
_CELL_CHARS = 160
_HEAD = """\
# Each file, each damage

What `python -m tools.damage` found last: what dbcheck concludes of each damage, and the
words of the server's log.  docs/file-damage.md says what the columns mean.
"""


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
        RESULTS.write_text(results(lines))
        DOCUMENT.write_text(page(DOCUMENT.read_text(), lines))
    sys.stdout.write(results(lines))
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


def page(text: str, lines: Sequence[Line]) -> str:
    """Return the document *text* with the counts, and a table for each server."""
    parts = [text[: text.index(_MARK) + len(_MARK)], _table(_counts(lines))]
    for product in dict.fromkeys(one.product for one in lines):
        own = [one for one in lines if one.product == product]
        damaged = [one for one in own if one.damage != NO_DAMAGE]
        parts.append(f"## {product}\n")
        heads = ["file", *_VERDICTS]
        parts.append(_table([heads, ["---"] * len(heads), *_by_file(damaged)]))
        parts += [f"{said}\n" for said in _causes(own)]
    return "\n".join(parts)


def results(lines: Sequence[Line]) -> str:
    """Return the page of the last sweep: a row for each file and each damage."""
    table = [["server", "file or cause", "damage", "verdict", "why"], ["---"] * 5]
    table += [_row(one) for one in lines if one.verdict != "harmless"]
    table += [
        [product, kind, ", ".join(damages), "harmless", ""]
        for (product, kind), damages in _harmless(lines).items()
    ]
    return "\n".join((_HEAD, _table(_counts(lines)), _table(table)))


def _counts(lines: Sequence[Line]) -> list[list[str]]:
    counts = Counter((one.product, _group(one)) for one in lines)
    groups = sorted({group for _, group in counts})
    products = list(dict.fromkeys(one.product for one in lines))
    rows = [["server", *groups], ["---"] * (len(groups) + 1)]
    return rows + [
        [name, *(str(counts[name, each]) for each in groups)] for name in products
    ]


def _by_file(lines: Sequence[Line]) -> list[list[str]]:
    """Return a row for each kind of file: what damage has which verdict."""
    found: dict[str, dict[str, list[str]]] = {}
    for one in lines:
        found.setdefault(one.kind, {}).setdefault(one.verdict, []).append(one.damage)
    return [
        [kind, *(_damages(verdicts.get(verdict, [])) for verdict in _VERDICTS)]
        for kind, verdicts in found.items()
    ]


def _damages(names: Sequence[str]) -> str:
    return "all" if len(names) == len(DAMAGES) else ", ".join(names)


def _causes(lines: Sequence[Line]) -> list[str]:
    """Return a sentence for each verdict of the causes that are no damage."""
    found: dict[str, list[str]] = {}
    for one in lines:
        if one.damage == NO_DAMAGE:
            found.setdefault(one.verdict, []).append(one.kind)
    return [
        f"Causes outside of the data that are {verdict}: {', '.join(kinds)}."
        for verdict, kinds in found.items()
    ]


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
