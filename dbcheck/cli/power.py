"""dbcheck power: look at a target's power, cut it, restore it, test its switch."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dbcheck.cli import options
from dbcheck.cli.say import say

if TYPE_CHECKING:
    from dbcheck.core.cutclass import CutClass
    from dbcheck.inventory.entry import Entry
    from dbcheck.ports.power import PowerSwitch
    from dbcheck.power.selftest import SelfTest


@click.group("power")
def command() -> None:
    """Look at the power of a HOST in an inventory, cut it, restore it.

    docs/power.md says what each kind of switch proves.
    """


def _host() -> Callable[[options.F], options.F]:
    def decorate(function: options.F) -> options.F:
        function = options.as_json()(options.inventory()(function))
        return click.argument("host")(function)

    return decorate


@command.command()
@_host()
def state(host: str, inventory: Path, as_json: bool) -> None:
    """Print what the switch reports: on, off or unknown."""
    _, switch = _switch(host, inventory)
    found = switch.state().value
    _show(
        {"host": host, "switch": switch.kind.value, "state": found},
        found,
        as_json=as_json,
    )


@command.command()
@_host()
@options.consent()
def cut(host: str, inventory: Path, yes: bool, i_know: bool, as_json: bool) -> None:
    """Cut the power at once, without any load. The host stays off."""
    from dbcheck.power.consent import remember

    entry, switch = _switch(host, inventory, unattended=True)
    _guard(entry, yes=yes, i_know=i_know)
    done = switch.cut()
    result = {"host": host, "switch": switch.kind.value, "report": dict(done.report)}
    _show(result, f"{host}: the power is cut", as_json=as_json)
    remember(entry.wiring)


@command.command()
@_host()
def restore(host: str, inventory: Path, as_json: bool) -> None:
    """Apply the power after its time off; the host may still boot."""
    entry, switch = _switch(host, inventory, unattended=True)
    switch.restore()
    done = "the power is restored"
    if entry.power.returns_by_itself:
        done = "nothing to do: its power comes back by itself"
    result = {"host": host, "switch": switch.kind.value}
    _show(result, f"{host}: {done}", as_json=as_json)


@command.command()
@_host()
@options.consent()
@click.option(
    "--wait",
    type=options.SECONDS,
    default=600.0,
    show_default=True,
    metavar="S",
    help="Seconds that the host may take to answer over SSH again.",
)
def test(
    host: str, inventory: Path, yes: bool, i_know: bool, wait: float, as_json: bool
) -> None:
    """Test the switch of an idle host: cut, restore, report.

    Over SSH it also sees whether this host went down, and not another one.
    """
    from dbcheck.errors import PowerError
    from dbcheck.power.consent import remember

    entry, switch = _switch(host, inventory, unattended=True)
    recognised = _guard(entry, yes=yes, i_know=i_know)
    seen, depths = _tested(entry, switch, wait)
    if seen.rebooted is False:
        raise PowerError(
            f"{host} stayed up while its switch was off (its boot id has not changed)",
            hint="The switch controls another host, or this host has a second power "
            "supply.",
        )
    result = {
        "host": host,
        "switch": switch.kind.value,
        "cut_class": switch.cut_class.value,
        "recognised_by": recognised,
        "cut_s": round(seen.cut_s, 3),
        "off_s": round(seen.off_s, 3),
        "back_s": None if seen.back_s is None else round(seen.back_s, 3),
        "rebooted": seen.rebooted,
        "states": list(seen.states),
        "report": dict(seen.cut.report),
        "depths": depths,
    }
    _show(result, *_test_lines(result, switch.cut_class), as_json=as_json)
    remember(entry.wiring)


def _tested(
    entry: Entry, switch: PowerSwitch, wait_s: float
) -> tuple[SelfTest, list[str]]:
    """Cut and restore; return what was seen, and how deep it went on each filesystem.

    That is measured where the host can be asked, and remembered unless the host went
    on: then the switch cuts something else.
    """
    from dbcheck.campaign.idle import measured
    from dbcheck.cli import assemble, output
    from dbcheck.core.table import LEDGER
    from dbcheck.power.reached import remember
    from dbcheck.power.selftest import run
    from dbcheck.report.progress import PlainProgress

    host, asked = assemble.power_host(entry), assemble.entry_host(entry)
    if asked is None:
        return run(switch, host, wait_s), []
    engine = assemble.engine(entry.target, entry.password)
    seen, depths, reached = measured(
        asked,
        PlainProgress(output.progress_console()),
        engine.facts(),
        engine.places((LEDGER,)),
        engine.mark_data,
        lambda: run(switch, host, wait_s),
        switch.cut_class,
    )
    if reached is not None and seen.rebooted is not False:
        remember(entry.wiring, reached)
    return seen, [
        f"{each}: {each.finding.reasons[0] if each.finding else each.unmeasured}"
        for each in depths
    ]


def _test_lines(result: dict[str, Any], cut_class: CutClass) -> list[str]:
    lines = [
        f"{result['host']}: the switch works ({result['switch']})",
        f"  states   {' > '.join(result['states'])}",
        f"  cut      {result['cut_s']:.1f} s until the switch reported off",
        f"  off      {result['off_s']:.1f} s until it was on again",
    ]
    if result["back_s"] is None:
        lines.append("  host     not asked: whether it went down was not seen")
    else:
        lines.append(
            f"  host     another boot, answering after {result['back_s']:.1f} s"
        )
    shown = f"  class    {cut_class.value}"
    if left_open := cut_class.leaves_open(None):
        shown += f": {left_open}"
    lines.append(shown)
    depths = result["depths"] or ["not measured"]
    return [*lines, *(f"  depth    {depth}" for depth in depths)]


def _switch(
    host: str, inventory: Path, *, unattended: bool = False
) -> tuple[Entry, PowerSwitch]:
    """Return a host and its switch; raise UsageError if *unattended* and there is none.

    A human who is asked to cut, and to restore in the next moment, tests nothing.
    """
    from dbcheck.cli import assemble
    from dbcheck.errors import UsageError
    from dbcheck.inventory.load import load
    from dbcheck.power.registry import UNATTENDED

    entry = load(inventory).entry(host)
    if unattended and entry.power.attended:
        raise UsageError(
            f"host {host} has no switch: its dbcheck_power is manual",
            hint="Cut and restore it by hand, or give it a switch by dbcheck_power: "
            f"{UNATTENDED}.",
        )
    return entry, assemble.power_switch(entry, lambda text: say(text, err=True))


def _guard(entry: Entry, *, yes: bool, i_know: bool) -> str:
    from dbcheck.cli import assemble
    from dbcheck.cli.guard import guard

    if not entry.power.guarded:  # the server need not even be reached
        return ""
    return guard(
        entry, assemble.engine(entry.target, entry.password), yes=yes, i_know=i_know
    )


def _show(result: dict[str, Any], *lines: str, as_json: bool) -> None:
    from dbcheck.cli import output

    if as_json:
        output.print_json(result)
    else:
        say(*lines)
