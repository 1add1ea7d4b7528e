"""Writes docs/guides/switches.md: `python -m tools.docs.switches`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from dbcheck.config import files
from dbcheck.inventory.load import make_inventory
from dbcheck.model.cut import CutClass
from dbcheck.model.depth import Depth
from dbcheck.power.kinds.config import SwitchConfig
from tests.kit.inventories import hosts

FILE = Path(__file__).parents[2] / "docs" / "guides" / "switches.md"
HOST = "db1"  # of inventory/switch.yml
# What a recipe was run against, in the words that begin its paragraph "Shown".
SHOWN = (
    "run against the real program",
    "run against a stand-in that speaks its protocol",
    "run against recorded answers",
)
PARTS = ("Cuts", "Leaves open", "First", "State", "Mistakes", "Shown", "Source")
_CLASSES = (
    *(CutClass.AC, CutClass.DC_RAIL, CutClass.BMC_OFF),
    *(CutClass.HYPERVISOR_KILL, CutClass.RESET),
)
_INTRO = """# Switches: recipes

For whoever writes the section of an inventory for a switch. This writes a whole
inventory with one host, `db1`, and all that this page says of the switch:

    dbcheck init switch.yml --switch shelly --example

1. Put your hosts, addresses and numbers in the place of the invented ones.
2. See that the state is read, with the host on:
   `dbcheck power state db1 --inventory switch.yml`
3. Try it on the idle host: `dbcheck power test db1 --inventory switch.yml` describes
   what it would do, and `--yes` does it. **Only this shows that the switch cuts this
   host.**

[power.md](../power.md) explains the variables, the wiring, the time without power and
what prevents a cut of the wrong host. This file is made from the recipes
(`make reference`).
"""
_TABLE = """
| `--switch` | switches | kind | class | how it was tested |
|---|---|---|---|---|
"""
_CLASS_INTRO = """
*A stand-in* is a server of a few lines, or a simulator, that speaks the protocol.
*Recorded answers* are what the program is known to print, from its source or its
documentation: try such a recipe with more care.

## What the class of a cut limits

Each recipe names the class of its cuts, by `dbcheck_power_class` or by the fence agent.
It limits what a PASS claims; it never adds to it.

| class | what a PASS leaves open without canaries | with a drive's cache seen lost |
|---|---|---|
"""
_STATE = """
A virtual machine's disk is virtual: canaries in a guest cannot show that a physical
drive lost its cache ([cloud.md](cloud.md), with what each cache mode leaves alive).

## How a state is read

`exec` takes the last word of what the state program prints, `on` or `off`. Where it
prints something else, two regular expressions say what means on and what off:

    dbcheck_power_state: [ssh, root@pve1.example.net, qm, status, "101"]
    dbcheck_power_state_on: '^status: running$'
    dbcheck_power_state_off: '^status: stopped$'

Exactly one of them must be found in the standard output (`^` and `$` match at each
line); else that is an error that names the output, and never a guess. Write a pattern
that holds the number of the outlet, where the program prints it. The patterns need an
inventory; the flags of `dbcheck run --power exec` have none.

A relay that is stuck, a hub that clears its register and keeps the voltage, or a
program that repeats what was last asked for all say *off* with the power on. dbcheck
never takes that alone for a cut: the server must have started anew, and where the host
can be asked, its kernel too, and late enough.

## How long the power stays off

`dbcheck_power_off_s` is 15 in the recipes that cut a supply, 5 where only a virtual
machine ends, and has no meaning for a reset. A state that is read as off begins that
time. Give dbcheck *off* and *on*, never *cycle* or *reboot*, and end the switch's own
time off, timer or schedule, which gives the power back too early. Of a switch that
reports before it has cut, or long after, see
[power.md](../power.md#a-switch-that-acts-late).
"""


class Recipe(NamedTuple):
    """A switch that `dbcheck init --switch NAME` knows, but for `manual`.

    parts: the paragraphs of its comments, by the word that begins each.
    variables: its lines of YAML.
    """

    name: str
    title: str
    parts: dict[str, str]
    variables: str
    plan: SwitchConfig

    @property
    def shown(self) -> str:
        """What it was run against, one of SHOWN; "" if its comments do not say."""
        text = " ".join(self.parts["Shown"].split())
        return next((each for each in SHOWN if text.startswith(each)), "")


def recipe(name: str) -> Recipe:
    """Return a recipe, taken apart, and the plan that its inventory makes."""
    lines = files.read_switch_recipe(name).splitlines()
    end = next(at for at, line in enumerate(lines) if not line.startswith("#"))
    text = "\n".join(line.removeprefix("#").removeprefix(" ") for line in lines[:end])
    title, *paragraphs = re.split(r"\n\n+|\n(?=Source: )", text)
    parts = dict(paragraph.split(": ", 1) for paragraph in paragraphs)
    found = make_inventory(FILE, hosts(files.make_switch_inventory(name)))
    variables = "\n".join(lines[end:])
    return Recipe(
        name, title.partition(": ")[2], parts, variables, found.entry(HOST).power
    )


def text() -> str:
    """Return the whole file."""
    recipes = [recipe(name) for name in files.list_switch_names()]
    rows = [
        f"| [`{each.name}`](#{each.name}) | {each.title} | `{each.plan.kind.value}` "
        f"| {each.plan.cut_class.value} | {each.shown} |\n"
        for each in recipes
    ]
    limits = [
        f"| {one.value} | {one.leaves_open(None)} | "
        f"{one.leaves_open(Depth.DRIVE) or 'nothing'} |\n"
        for one in _CLASSES
    ]
    return "".join(
        [
            *(_INTRO, _TABLE, *rows),
            *(_CLASS_INTRO, *limits, _STATE, *map(_section, recipes)),
        ]
    )


def _section(one: Recipe) -> str:
    parts = "".join(f"**{word}:** {text}\n\n" for word, text in one.parts.items())
    lines = (f"    {line}".rstrip() for line in one.variables.splitlines())
    title = one.title[0].upper() + one.title[1:]
    return f"\n## {one.name}\n\n{title}.\n\n{parts}" + "\n".join(lines) + "\n"


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")
