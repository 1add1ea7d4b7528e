"""Programs that commit as applications do, among them those of the guide."""

from __future__ import annotations

import re
import sys
from pathlib import Path

_GUIDE = Path(__file__).parents[2] / "docs/guides/client-program.md"


def write_program_of_guide(language: str, file: Path) -> Path:
    """Write the guide's program in that language into *file*; return it."""
    (source,) = re.findall(
        rf"^```{language}\n(.*?)^```$", _GUIDE.read_text(), re.DOTALL | re.MULTILINE
    )
    file.write_text(source)
    return file


def python_program(folder: Path) -> list[str]:
    """Return the command that runs the guide's program in Python; it needs APP_DSN."""
    file = write_program_of_guide("python", folder / "commits.py")
    return [sys.executable, str(file)]
