"""Asks the target's host before the load and after recovery, if there is one to ask."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from typing import TypeVar

from dbcheck import interrupt
from dbcheck.campaign.rig import Rig
from dbcheck.core.target import HostAfter, HostBefore
from dbcheck.errors import HostError
from dbcheck.ports import Canaries, Listener, ServerFacts, TargetHost
from dbcheck.runs import Manifest

BOOT_S = 60.0  # for so long a booted host may let nobody in though its server answers
POLL_S = 1.0

T = TypeVar("T")


def look_at_host(
    rig: Rig, server: ServerFacts
) -> tuple[HostBefore | None, Canaries | None]:
    """Describe the host, note where the log ends, start the canaries.

    Raise HostError if the host was named and one of these cannot be done.
    """
    if rig.host is None:
        return None, None
    directory = data_directory(server)
    facts = rig.host.facts(directory)
    marks = rig.host.mark_log(rig.log_path) if rig.log_path else {}
    canaries = rig.host.start_canaries(directory)
    before = HostBefore(facts, canaries.folder, canaries.nonce, rig.log_path, marks)
    return before, canaries


def data_directory(server: ServerFacts) -> str:
    """Return where the server keeps its data; raise HostError if it does not tell."""
    for name in ("data_directory", "datadir"):
        if name in server.identity:
            return server.identity[name]
    raise HostError(
        "the server does not tell where its data directory is",
        hint="Run: grant pg_read_all_settings to the account.",
    )


def end_canaries(rig: Rig, canaries: Canaries | None, *, remove: bool = False) -> None:
    """Stop the canaries, and forget the connection that a cut has ended."""
    if rig.host is None or canaries is None:
        return
    canaries.stop()
    if remove:
        with contextlib.suppress(HostError):
            rig.host.remove_canaries(canaries.folder)
    rig.host.close()


def ask_host(rig: Rig, manifest: Manifest) -> HostAfter | None:
    """Describe the host again, and read what is left of the canaries and the log."""
    host, before = rig.host, manifest.host
    if host is None or before is None:
        return None
    try:
        _await_host(host, rig.listener)
    except HostError as error:
        return HostAfter(None, None, None, str(error))
    failures: list[str] = []

    def told(question: Callable[[], T]) -> T | None:
        try:
            return question()
        except HostError as error:
            failures.append(str(error))
            return None

    facts = told(lambda: host.facts(before.facts.data_directory))
    remains = told(
        lambda: host.read_canaries(before.canary_folder, before.canary_nonce)
    )
    log = None
    if before.log_path:
        log = told(lambda: host.read_log(before.log_path, before.log_marks))
    told(lambda: host.remove_canaries(before.canary_folder))
    return HostAfter(facts, remains, log, failures[0] if failures else "")


def _await_host(host: TargetHost, listener: Listener) -> None:
    """Return once the host lets us in; raise HostError if it does not within BOOT_S.

    The database may be started before sshd, or before that lets anybody in: until the
    boot is over, pam_nologin(8) turns ordinary users away.  What the host is asked is
    asked only once, for the answers are as final as the survivors.
    """
    ends_s, told = time.monotonic() + BOOT_S, False
    while True:
        interrupt.require_none()
        try:
            return host.reach()
        except HostError as error:
            if time.monotonic() >= ends_s:
                raise
            if not told:
                listener.phase(
                    "restore", f"trying its host for {BOOT_S:.0f} s: {error}"
                )
                told = True
        time.sleep(POLL_S)
