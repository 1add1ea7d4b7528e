"""Compares judgements with planted.json: `python -m tests.golden FOLDER`.

FOLDER has what each test left there that was run so:

    pytest -m "wide or not wide" tests/planted --golden FOLDER

A real cut leaves some items to chance, so a difference may be a further judgement that
is right: read it, and add what FOLDER has with --add.  Delete from FOLDER what a failed
test left.  Without FOLDER, stored.json is written anew.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

from dbcheck.cycle.judging import judge_run
from dbcheck.runs.folder import RunFolder
from dbcheck.witness.log import FrameLogReader
from tests import golden
from tests.runs import make


def judge_stored() -> dict[str, golden.Summary]:
    """Return how each stored run is judged."""
    found = {}
    for expected in sorted(Path(make.__file__).parent.glob("*.json")):
        with tempfile.TemporaryDirectory() as folder:
            place = make.copied(expected.with_suffix(""), Path(folder) / "run")
            result = judge_run(RunFolder.open(place), FrameLogReader()).result
            found[expected.stem] = golden.summary_of_stored(result)
    return found


def main() -> int:
    """Return 1 if a judgement is not in planted.json, 0 if all are."""
    parser = argparse.ArgumentParser(prog="python -m tests.golden")
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--add", action="store_true")
    args = parser.parse_args()
    if args.folder is None:
        golden.write(golden.STORED, judge_stored())
        return 0
    known, differences = golden.read(golden.PLANTED), []
    for file in sorted(args.folder.glob("*.json")):
        name, seen = json.loads(file.read_text())
        differences += golden.differences(name, seen, known)
        if args.add:
            kept = known.setdefault(name, [])
            kept += [one for one in seen if one not in kept]
    if args.add:
        golden.write(golden.PLANTED, known)
    sys.stdout.write("".join(f"{difference}\n" for difference in differences))
    return 1 if differences and not args.add else 0


if __name__ == "__main__":
    sys.exit(main())
