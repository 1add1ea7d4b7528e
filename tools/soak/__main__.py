"""`python -m tools.soak`: see the package; Ctrl-C ends it with the summary so far."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from tools.soak import record
from tools.soak.items import ROOT, Result, is_tests, item, run

DOCUMENT = ROOT / "docs" / "findings.md"
FOLDER = ROOT / "soak"
_RESULTS = "results.jsonl"


def main(words: Sequence[str]) -> int:
    """Run items; return 1 if one had an unexpected result, also in a call before."""
    chosen = _arguments(words)
    record.require_marks(chosen.report)
    file = chosen.folder / _RESULTS
    results = record.read(file)
    try:
        for number in _numbers(chosen, results):
            what = item(number)
            _say(f"{number}: {what}")
            result = run(what, number, chosen.folder)
            _tell(result)
            if chosen.item:
                return 1 if result.wrong else 0
            record.add(file, result)
            results.append(result)
    except KeyboardInterrupt:
        _say("interrupted: the item that ran is repeated by the next call")
    lines = record.summary(results, record.this_machine())
    record.put_into(chosen.report, lines)
    _say("\n".join(lines))
    return 1 if any(one.wrong for one in results) else 0


def _arguments(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m tools.soak")
    until = parser.add_mutually_exclusive_group()
    until.add_argument("--minutes", type=float, help="begin no item after so long")
    until.add_argument("--cuts", type=int, help="begin no item after so many cuts")
    until.add_argument("--item", type=int, help="repeat this one, and record nothing")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="of the results")
    parser.add_argument("--report", type=Path, default=DOCUMENT, help="document")
    return parser.parse_args(words)


def _numbers(chosen: argparse.Namespace, results: Sequence[Result]) -> Iterator[int]:
    """Yield the numbers of the items to run; *results* grows meanwhile."""
    if chosen.item:
        yield chosen.item
        return
    began_s, before = time.monotonic(), len(results)
    while True:
        done = results[before:]
        cuts = sum(sum(one.verdicts.values()) for one in done if not is_tests(one))
        if chosen.minutes is not None and time.monotonic() - began_s > (
            chosen.minutes * 60
        ):
            return
        if chosen.cuts is not None and cuts >= chosen.cuts:
            return
        yield 1 + max((one.number for one in results), default=0)


def _tell(result: Result) -> None:
    seen = ", ".join(f"{count} {name}" for name, count in result.verdicts.items())
    _say(f"    {seen or 'nothing'}")
    for said in result.wrong:
        _say(f"    UNEXPECTED: {said}")
    if result.wrong:
        _say(f"    again: python -m tools.soak --item {result.number}")


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
