"""dbcheck power: look at a target's power, cut it, restore it, try its switch out."""

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
    from dbcheck.power.trial import Trial


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
    """Print what the switch says: on, off or unknown."""
    _, switch = _switch(host, inventory)
    found = switch.state().value
    _show({"host": host, "switch": switch.kind, "state": found}, found, as_json=as_json)


@command.command()
@_host()
@options.consent()
def cut(host: str, inventory: Path, yes: bool, i_know: bool, as_json: bool) -> None:
    """Cut the power at once, without any load. The host stays off."""
    from dbcheck.power.consent import remember

    entry, switch = _switch(host, inventory, unattended=True)
    _guard(entry, yes=yes, i_know=i_know)
    done = switch.cut()
    result = {"host": host, "switch": switch.kind, "report": dict(done.report)}
    _show(result, f"{host}: the power is cut", as_json=as_json)
    remember(entry)


@command.command()
@_host()
def restore(host: str, inventory: Path, as_json: bool) -> None:
    """Apply the power after its time off; the host may still boot."""
    entry, switch = _switch(host, inventory, unattended=True)
    switch.restore()
    said = "the power is restored"
    if switch.kind == "sysrq" or (switch.kind == "exec" and not entry.power.restore):
        said = "nothing to do: its power comes back by itself"
    result = {"host": host, "switch": switch.kind}
    _show(result, f"{host}: {said}", as_json=as_json)


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
    """Try the switch of an idle host: cut, restore, report.

    Over SSH it also sees whether this host went down, and not another one.
    """
    from dbcheck.errors import PowerError
    from dbcheck.power.consent import remember

    entry, switch = _switch(host, inventory, unattended=True)
    said = _guard(entry, yes=yes, i_know=i_know)
    trial, depths = _tried(entry, switch, wait)
    if trial.rebooted is False:
        raise PowerError(
            f"{host} stayed up while its switch was off (its boot id has not changed)",
            hint="The switch controls another host, or this host has a second power "
            "supply.",
        )
    result = {
        "host": host,
        "switch": switch.kind,
        "cut_class": switch.cut_class.value,
        "recognised_by": said,
        "cut_s": round(trial.cut_s, 3),
        "off_s": round(trial.off_s, 3),
        "back_s": None if trial.back_s is None else round(trial.back_s, 3),
        "rebooted": trial.rebooted,
        "states": list(trial.states),
        "report": dict(trial.cut.report),
        "depths": depths,
    }
    _show(result, *_trial_lines(result, switch.cut_class), as_json=as_json)
    remember(entry)


def _tried(entry: Entry, switch: PowerSwitch, wait_s: float) -> tuple[Trial, list[str]]:
    """Cut and restore; return what was seen, and how deep it went on each filesystem.

    That is measured where the host can be asked, and remembered unless the host went
    on: then the switch cuts something else.
    """
    from dbcheck.campaign.idle import measured
    from dbcheck.cli import output, rig
    from dbcheck.ports.engine import Shape
    from dbcheck.power.reached import remember
    from dbcheck.power.trial import try_out
    from dbcheck.report.progress import PlainProgress

    target, asked = rig.power_target(entry), rig.entry_host(entry)
    if asked is None:
        return try_out(switch, target, wait_s), []
    engine = rig.engine(entry.target, entry.password)
    trial, depths, reached = measured(
        asked,
        PlainProgress(output.progress_console()),
        engine.facts(),
        engine.places(Shape.LEDGER),
        engine.mark_data,
        lambda: try_out(switch, target, wait_s),
        switch.cut_class,
    )
    if reached is not None and trial.rebooted is not False:
        remember(entry, reached)
    return trial, [
        f"{each}: {each.finding.reasons[0] if each.finding else each.unmeasured}"
        for each in depths
    ]


def _trial_lines(result: dict[str, Any], cut_class: CutClass) -> list[str]:
    lines = [
        f"{result['host']}: the switch works ({result['switch']})",
        f"  states   {' > '.join(result['states'])}",
        f"  cut      {result['cut_s']:.1f} s until the switch said so",
        f"  off      {result['off_s']:.1f} s until it was on again",
    ]
    if result["back_s"] is None:
        lines.append("  host     not asked: whether it went down was not seen")
    else:
        lines.append(
            f"  host     another boot, answering after {result['back_s']:.1f} s"
        )
    said = f"  class    {cut_class.value}"
    if left_open := cut_class.leaves_open(None):
        said += f": {left_open}"
    lines.append(said)
    depths = result["depths"] or ["not measured"]
    return [*lines, *(f"  depth    {depth}" for depth in depths)]


def _switch(
    host: str, inventory: Path, *, unattended: bool = False
) -> tuple[Entry, PowerSwitch]:
    """Return a host and its switch; raise UsageError if *unattended* and there is none.

    Somebody who is asked to cut, and to restore in the next moment, tries nothing out.
    """
    from dbcheck.cli import rig
    from dbcheck.errors import UsageError
    from dbcheck.inventory.load import load

    entry = load(inventory).entry(host)
    if unattended and entry.power.attended:
        raise UsageError(
            f"host {host} has no switch: its dbcheck_power is manual",
            hint="Its power is in your hands; or give it dbcheck_power: exec, fence, "
            "sysrq or lab.",
        )
    return entry, rig.power_switch(entry, lambda text: say(text, err=True))


def _guard(entry: Entry, *, yes: bool, i_know: bool) -> str:
    from dbcheck.cli import rig
    from dbcheck.cli.guard import guard

    if entry.power.attended or entry.power.kind == "lab":
        return ""
    return guard(
        entry, rig.engine(entry.target, entry.password), yes=yes, i_know=i_know
    )


def _show(result: dict[str, Any], *lines: str, as_json: bool) -> None:
    from dbcheck.cli import output

    if as_json:
        output.print_json(result)
    else:
        say(*lines)
