"""dbcheck as people start it, for a target whose host boots when its power comes back.

python -m tests.real.campaign.far_client FOLDER ARGUMENTS, where FOLDER/boots holds how
often the host has booted, and FOLDER/known_hosts its key.  Target, witness and client
are this one machine, which cannot be booted for a test and which no guard lets be cut.
"""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import patch

from dbcheck.cli import main
from dbcheck.cycle import host as cycle_host
from dbcheck.cycle.preflight import before_load
from dbcheck.hosts.host import TargetHost
from dbcheck.inventory import reaching
from dbcheck.model.host import TargetFacts
from dbcheck.remote.address import SshOptions
from dbcheck.runner import assemble, campaign_run


def replaced(module: ModuleType, **names: Any) -> None:
    """Replace names of a module for good; raise AttributeError if it has none such."""
    patch.multiple(module, **names).start()


def play(folder: Path) -> None:
    """Let the host seem to be another one than this."""
    tell = TargetHost.facts

    def facts(self: TargetHost, *asked: Any) -> TargetFacts:
        found, boots = tell(self, *asked), folder / "boots"
        return replace(
            found,
            boot_id=f"{found.boot_id}-{boots.read_text()}",
            uptime_s=time.time() - boots.stat().st_mtime,
        )

    TargetHost.facts = facts  # type: ignore[method-assign, assignment]
    known = partial(SshOptions, known_hosts=folder / "known_hosts")
    replaced(assemble, SshOptions=known)  # of the witness
    replaced(reaching, SshOptions=known)  # of the target's host
    replaced(before_load, require_other_host=lambda *_: None)
    replaced(before_load, require_independent=lambda *_: "the test says so")
    replaced(campaign_run, check_interlocks=lambda *_, **__: "")
    replaced(campaign_run, require_unshared_switch=lambda *_: None)
    replaced(cycle_host, BOOT_S=0.5)


if __name__ == "__main__":
    play(Path(sys.argv.pop(1)))
    main()
