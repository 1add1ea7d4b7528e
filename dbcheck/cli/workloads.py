"""dbcheck workloads: lists the workloads for --workload."""

from __future__ import annotations

import json
from dataclasses import asdict

import click

from dbcheck.cli.flags.groups import Verb, option
from dbcheck.cli.say import say
from dbcheck.config import files, workload_file
from dbcheck.rows.workload import Workload


@click.command("workloads", cls=Verb)
@option("--json", "as_json", is_flag=True, help="Print them as JSON.")
def command(*, as_json: bool) -> None:
    """List the workloads that come with dbcheck: what each does, finds and costs.

    Each is a TOML file. Copy one from the folder workloads/ of dbcheck's sources and
    change it to your own needs: --workload takes the path of any file that ends in
    .toml.
    """
    found = [workload_file.load(name) for name in files.list_workload_names()]
    if as_json:
        say(json.dumps([_list_values(one) for one in found], indent=2))
        return
    for one in found:
        say(one.name)
        say(f"  {one.description}")
        say(f"  finds: {one.finds}")
        say(f"  cost:  {one.cost}")


def _list_values(one: Workload) -> dict[str, object]:
    values = {**asdict(one), "plan": one.plan.value}
    return {key: value for key, value in values.items() if key != "cores"}
