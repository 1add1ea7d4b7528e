"""Shows a finding of docs/findings.md: `python -m tests.findings [NAME ...]`.

Each starts a server of this machine on a plain folder, kills it with SIGKILL, tears one
page, or all of a table, as a power loss tears them, starts the server again and looks.
Where a control is possible, it differs in the one thing that matters, and must recover.
"""

from __future__ import annotations

import sys

from tests.findings.cases import CASES, Unseen


def main() -> int:
    """Show the findings that are named, or all; 1 if one was not reproduced."""
    names = sys.argv[1:] or list(CASES)
    if unknown := set(names) - CASES.keys():
        raise SystemExit(
            f"no finding is called {', '.join(unknown)}: {', '.join(CASES)}"
        )
    missed = 0
    for name in names:
        try:
            said = CASES[name]()
        except Unseen as error:
            missed += 1
            said = f"not reproduced: {error}"
        sys.stdout.write(f"{name}\n  {said}\n")
        sys.stdout.flush()
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
