"""Compares judgements with planted.json: `python -m tools.golden FOLDER`.

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
from pathlib import Path

from tests import golden


def main() -> int:
    """Return 1 if a judgement is not in planted.json, 0 if all are."""
    parser = argparse.ArgumentParser(prog="python -m tools.golden")
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--add", action="store_true")
    args = parser.parse_args()
    if args.folder is None:
        golden.write(golden.STORED, golden.judge_stored())
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
