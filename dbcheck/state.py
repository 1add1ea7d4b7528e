"""Where this user's client keeps what later commands need."""

from __future__ import annotations

import os
from pathlib import Path


def state_folder(subject: str) -> Path:
    """Return the folder for what is kept about *subject*; it need not exist yet."""
    state = os.environ.get("XDG_STATE_HOME", "")
    folder = Path(state) if state.startswith("/") else Path("~/.local/state")
    return folder.expanduser() / "dbcheck" / subject
