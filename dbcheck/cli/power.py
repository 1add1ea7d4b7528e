"""dbcheck power: show a target's power, cut it, restore it, test its switch."""

from __future__ import annotations

from typing import Any

import click

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import UsageError
from dbcheck.cli import output
from dbcheck.cli.flags import shared
from dbcheck.cli.flags.groups import SECONDS, VerbGroup, grouped, option
from dbcheck.cli.flags.shared import ConsentOptions
from dbcheck.cli.flags.target import InventoryOptions
from dbcheck.cli.say import say
from dbcheck.inventory.entry import Entry
from dbcheck.inventory.load import load_inventory
from dbcheck.inventory.machines import place_on_machine
from dbcheck.model.cut import CutClass, SwitchKind
from dbcheck.model.depth import Depth
from dbcheck.ports.power import PowerSwitch
from dbcheck.power import consent as agreed
from dbcheck.power.registry import UNATTENDED
from dbcheck.runner import assemble
from dbcheck.runner.guard import check_interlocks
from dbcheck.runner.placement import place_entry
from dbcheck.runner.switch_test import NOT_BACK, require_back, run_switch_test


@click.group("power", cls=VerbGroup)
def command() -> None:
    """Show the power of a HOST in an inventory, cut it, restore it, test its switch.

    docs/power.md describes what each kind of switch proves.
    """


@command.command()
@click.argument("host")
@grouped
@shared.as_json()
def state(host: str, lookup: InventoryOptions, as_json: bool) -> None:
    """Print what the switch reports: on, off or unknown.

    A lab also reports why its server is not there though its power is on. Where
    the database runs on Kubernetes, HOST is the node of its pod.
    """
    _, switch = _find_switch(host, lookup, needs_server=False)
    found, failure = switch.state().value, switch.failure()
    result = {"host": host, "switch": switch.kind.value, "state": found}
    if failure and not as_json:
        say(f"{host}: {NOT_BACK.format(failure)}", err=True)
    shown = found
    if switch.kind is SwitchKind.MANUAL:
        shown = "not measured: a person switches it; look at the machine"
    _show(result | {"failure": failure}, shown, as_json=as_json)


@command.command()
@click.argument("host")
@grouped
@shared.as_json()
def cut(
    host: str, lookup: InventoryOptions, consent: ConsentOptions, as_json: bool
) -> None:
    """Cut the power at once, without any load. The host stays off."""
    entry, switch = _find_switch(host, lookup, unattended=True)
    _guard(entry, consent)
    done = switch.cut()
    result = {"host": host, "switch": switch.kind.value, "report": dict(done.report)}
    _show(result, f"{host}: the power is cut", as_json=as_json)
    agreed.remember_consent(entry.switched_host)


@command.command()
@click.argument("host")
@grouped
@shared.as_json()
def restore(host: str, lookup: InventoryOptions, as_json: bool) -> None:
    """Apply the power after its time off; the host may still boot.

    A lab's server that did not come back is an error. Where the database runs on
    Kubernetes, HOST is the node whose power was cut.
    """
    entry, switch = _find_switch(host, lookup, unattended=True, needs_server=False)
    switch.restore()
    require_back(host, switch)
    done = "the power is restored"
    if entry.power.returns_by_itself:
        done = "nothing to do: its power comes back by itself"
    result = {"host": host, "switch": switch.kind.value}
    _show(result, f"{host}: {done}", as_json=as_json)


@command.command()
@click.argument("host")
@grouped
@shared.as_json()
@option(
    "--wait",
    type=SECONDS,
    default=600.0,
    show_default=True,
    metavar="S",
    help="Seconds that the host may take to answer over SSH again.",
)
def test(
    host: str,
    lookup: InventoryOptions,
    consent: ConsentOptions,
    wait: float,
    as_json: bool,
) -> None:
    """Test the switch of an idle host: cut, restore, report.

    Over SSH it also checks that this host went down, and not another one; where its
    drives alone are cut, that they went and the host did not.
    """
    entry, switch = _find_switch(host, lookup, unattended=True)
    recognised = _guard(entry, consent)
    found = run_switch_test(entry, switch, wait)
    seen = found.seen
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
        "depths": list(found.depths),
        "drives": list(found.drives),
    }
    lines = _format_test(result, switch.cut_class, found.depth)
    _show(result, *lines, as_json=as_json)
    agreed.remember_consent(entry.switched_host)


def _format_test(
    result: dict[str, Any], cut_class: CutClass, depth: Depth | None
) -> list[str]:
    lines = [
        f"{result['host']}: the switch works ({result['switch']})",
        f"  states   {' > '.join(result['states'])}",
        f"  cut      {result['cut_s']:.1f} s until the switch reported off",
        f"  off      {result['off_s']:.1f} s until it was on again",
    ]
    if result["back_s"] is None:
        lines.append("  host     not asked; it is not known whether it went down")
    elif result["rebooted"]:
        lines.append(f"  host     rebooted, answered after {result['back_s']:.1f} s")
    else:
        lines.append("  host     kept running, as only its drives were cut")
    shown = f"  class    {cut_class.value}"
    if left_open := cut_class.leaves_open(depth):
        shown += f": {left_open}"
    lines.append(shown)
    lines += [f"  drive    {drive}" for drive in result["drives"]]
    depths = result["depths"] or ["not measured"]
    return [*lines, *(f"  depth    {depth}" for depth in depths)]


def _find_switch(
    host: str,
    lookup: InventoryOptions,
    *,
    unattended: bool = False,
    needs_server: bool = True,
) -> tuple[Entry, PowerSwitch]:
    """Return a host and its switch; raise UsageError if *unattended* and there is none.

    A human who is asked to cut and, at once, to restore would test nothing.
    needs_server: False also takes a node of Kubernetes, and only that: while the power
    is off, the pod that is asked for may be on another node.
    """
    inventory = load_inventory(lookup.inventory)
    if host in inventory.others and not needs_server:
        machine = inventory.machine(host)
        entry = place_on_machine(Entry(name=host, target=""), machine, None)
    else:
        entry = inventory.entry(host)
        if entry.kubernetes and not needs_server:
            raise UsageError(
                f"{host} runs in pods of Kubernetes, and has no switch of its own",
                id=ErrorId.ONE_HOST_NEEDED,
                hint="Name the host of its node, as the inventory has it.",
            )
        entry = place_entry(inventory, entry)
    if unattended and entry.power.attended:
        raise UsageError(
            f"host {host} has no switch: its dbcheck_power is manual",
            id=ErrorId.SWITCH_MISSING,
            hint="Cut and restore it by hand, or give it a switch by dbcheck_power: "
            f"{UNATTENDED}.",
        )
    return entry, assemble.make_scoped_switch(entry, lambda text: say(text, err=True))


def _guard(entry: Entry, consent: ConsentOptions) -> str:
    if not entry.power.guarded:  # the server need not even be reached
        return ""
    engine = assemble.make_engine(entry.target, entry.password)
    return check_interlocks(
        entry, engine, yes=consent.yes, i_know=consent.i_know, loads_server=False
    )


def _show(result: dict[str, Any], *lines: str, as_json: bool) -> None:
    if as_json:
        output.print_json(result)
    else:
        say(*lines)
