"""How the server ended: cut, crashed or shut down in an orderly way."""

from __future__ import annotations

from dataclasses import dataclass

from dbcheck.core.evidence import AtTheCut, Item, Standing

NAME = "not shut down"
_DARK = (
    "it may have been shut down before that, unseen, if its network failed first; a "
    "crash canary or its log would show that"
)
BROKEN, SILENT = "broken", "silent"  # of a load: how its server went


@dataclass(frozen=True, slots=True)
class Ended:
    """What is known of the end of the server.

    restarted:  another server process answers; None if that is not known.
    canary:     the crash canary's row is still there; None if nobody knows.
    by_session: the row stays also if the canary's session ended before the cut.
    unflushed:  the server never flushes the canary: where its host loses power soon
                after an orderly shutdown, the row is gone as after a crash.
    no_canary:  why there was no crash canary, "" if there was one.
    logged:     a log of the server tells of recovery from a crash.
    exact:      the lab cut the power itself.
    seen_off:   the switch read from its device that the power was off.
    recorded:   what the host recorded of an orderly shutdown of its own.
    cache_lost: what was written on the host without a flush is lost.
    """

    restarted: bool | None = None
    canary: bool | None = None
    by_session: bool = False
    unflushed: bool = False
    no_canary: str = ""
    logged: bool = False
    exact: bool = False
    seen_off: bool = False
    recorded: str = ""
    cache_lost: bool = False

    @property
    def crashed(self) -> bool:
        """Whether the server itself shows that it recovered from a crash."""
        return self.canary is False or self.logged


def not_shut_down(load: AtTheCut | None, ended: Ended) -> Item:
    """Judge whether the server ended without an orderly shutdown.

    Silence alone proves nothing: where the network fails first, a server shuts down
    unseen.
    """
    against = _against(load, ended)
    if against:
        return Item(NAME, Standing.CONTRADICTED, against, True)
    silent = load is not None and load.gone == SILENT
    if shown := _shown(ended, silent=silent):
        return Item(NAME, Standing.PRESENT, shown, True)
    if silent and (lost := _lost_its_power(ended)):
        return Item(
            NAME, Standing.ASSUMED, f"it fell silent, and {lost}; {_DARK}", True
        )
    return Item(NAME, Standing.NOT_OBSERVABLE, _unknown(load, ended), True)


def _against(load: AtTheCut | None, ended: Ended) -> str:
    """Return what shows that the power of this server was not cut, "" if nothing."""
    if ended.restarted is False:
        return "the server never stopped: its start time did not change"
    if load is not None and load.farewells:
        return (
            f"the server told a session {load.farewells[0]!r}: an orderly end,"
            " not a power cut"
        )
    if ended.recorded:
        return f"the host shut down in an orderly way: {ended.recorded}"
    if ended.canary is not True:
        return ""
    if not ended.by_session:
        return (
            "the canary row that a crash removes is still there:"
            " it was shut down, not cut"
        )
    if ended.exact or ended.logged:
        return ""
    return (
        "the canary row that a crash removes is still there: it was shut down, not cut,"
        " or the connection that held the canary broke before the cut"
    )


def _shown(ended: Ended, *, silent: bool) -> str:
    """Return what shows that it was not shut down, "" if nothing does."""
    if ended.canary is False and (silent or not ended.unflushed):
        return "recovery from a crash removed the canary row"
    if ended.logged:
        return "the server's own log tells of recovery from a crash"
    if ended.exact:
        return "the lab cut its power"
    return ""


def _lost_its_power(ended: Ended) -> str:
    """Return what shows that the host lost its power, if not when; "" if nothing."""
    if ended.cache_lost:
        return "its host lost data that an orderly shutdown would have written"
    if ended.seen_off:
        return "the switch saw the power off"
    return ""


def _unknown(load: AtTheCut | None, ended: Ended) -> str:
    """Return why nobody knows how it ended."""
    why = ended.no_canary or "no crash canary and no log tells how it ended"
    if load is None:
        return f"the client was lost before the cut; {why}"
    if load.gone == SILENT:
        return (
            "it fell silent, as it also does if its network fails first and it then"
            f" shuts down; {why}"
        )
    return (
        "its connections were closed, as a shutdown does; a power cut leaves silence;"
        f" {why}"
    )
