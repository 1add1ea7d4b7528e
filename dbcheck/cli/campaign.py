"""dbcheck campaign: cut many times, and report what the count proves."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import click

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import RunWriteError, UsageError
from dbcheck.campaign.compare import group_targets
from dbcheck.campaign.folder import CampaignFolder, CampaignPlan
from dbcheck.cli import output
from dbcheck.cli.flags import shared
from dbcheck.cli.flags.groups import FOLDER, Verb, grouped, option
from dbcheck.cli.flags.shared import ConsentOptions, draw_seed
from dbcheck.cli.flags.target import InventoryOptions, TwiceOptions
from dbcheck.cli.say import say
from dbcheck.inventory.entry import Entry
from dbcheck.inventory.load import Inventory, load_inventory
from dbcheck.judge.result import to_values
from dbcheck.judge.results import CampaignResult, CampaignsResult
from dbcheck.report.campaign import draw_campaigns
from dbcheck.report.console import make_console
from dbcheck.runner import campaign_run
from dbcheck.runner.attendance import require_unattended
from dbcheck.runner.campaign_fleet import LOCAL, require_workers, run_fleet
from dbcheck.runner.campaign_plan import decide_goal, make_plan
from dbcheck.runner.guard import require_control_possible
from dbcheck.runner.placement import find_placed_targets

CYCLES = click.IntRange(1, 1_000_000)


@click.command("campaign", cls=Verb)
@grouped
@click.argument("names", nargs=-1, metavar="[NAME]...")
@shared.everything()
@option("--cuts", type=CYCLES, metavar="N", help="Cuts to make that PASS or FAIL.")
@shared.until()
@option(
    "--max-cuts", type=CYCLES, metavar="N", help="With --until: at most this many cuts."
)
@option("--keep-going", is_flag=True, help="Continue after a loss.")
@option(
    "--control",
    is_flag=True,
    help="First cut the power under sessions that are acknowledged too early, until "
    "that loses rows, as dbcheck run --control does once.",
)
@shared.seed("Decides the moment of each cut and the sizes of the rows.")
@option(
    "--folder",
    type=FOLDER,
    help="Folder of the new campaign. Default: one under campaigns/.",
)
@option(
    "--resume",
    type=FOLDER,
    metavar="FOLDER",
    help="Continue a campaign whose client ended, at whatever point.",
)
@option(
    "--dask",
    "address",
    metavar="ADDRESS",
    help="Run the campaigns on the workers of the Dask scheduler at this address, e.g. "
    "tcp://10.0.0.1:8786; local: on this machine. Default with several targets: local.",
)
@option(
    "--cutting",
    type=click.IntRange(1, 1_000_000),
    metavar="N",
    help="Have at most this many targets without power at once. Default: any number.",
)
@shared.as_json()
def command(
    names: tuple[str, ...],
    everything: bool,
    lookup: InventoryOptions,
    second: TwiceOptions,
    consent: ConsentOptions,
    cuts: int | None,
    until: float | None,
    max_cuts: int | None,
    keep_going: bool,
    control: bool,
    seed: int | None,
    folder: Path | None,
    resume: Path | None,
    address: str | None,
    cutting: int | None,
    as_json: bool,
) -> None:
    """Cut the power of hosts in an inventory many times.

    \b
    dbcheck campaign db1 --until 0.05        59 cuts, if none loses
    dbcheck campaign db1 db2 --cuts 20       two hosts at once, each on its own
    dbcheck campaign rack7 --cuts 20         every target of a group
    dbcheck campaign --resume FOLDER         continue after Ctrl-C, a crash, a reboot

    Switches cut unattended. Of one host without a switch (dbcheck_power: manual) you
    pull the plug when you are asked to; stop with Ctrl-C whenever you like, and
    continue on another day.

    The cuts come at random moments: while the sessions begin, under steady load,
    during a checkpoint where one can be asked for, during housekeeping where the
    workload has some, and while the sessions are held, so that no commit flushes the
    drives. Of a cluster whose dbcheck_survives is a list, each cut tests one of these
    promises, drawn by the seed: --cuts are shared among them, and --until makes as
    many of each. Rows of all earlier cycles are checked again in each. The first loss
    ends the campaign.
    """
    inventory = lookup.inventory
    if resume is not None:
        _refuse_new(names, everything, cuts, until, folder)
        folders = campaign_run.list_stored_campaigns(resume)
        inventory = _find_begun_inventory(folders, lookup)
        found = load_inventory(inventory)
        begun = campaign_run.find_newest_runs(folders)
        names = tuple(one.plan().name for one in folders)
        entries = find_placed_targets(found, names, begun)
        for entry, one in zip(entries, folders, strict=True):
            campaign_run.require_same(entry, one, yes=consent.yes)
        at = _find_place(address, entries)
        root = resume
    else:
        found = load_inventory(inventory)
        entries = _list_named(found, names, everything=everything)
        goal = decide_goal(cuts, until, max_cuts)
        at = _find_place(address, entries)
        for entry in entries if control else ():
            require_control_possible(entry)
        base = draw_seed(seed)
        plans = [
            make_plan(
                *(entry, base, goal),
                keep_going=keep_going,
                control=control,
                twice=second.twice or entry.twice,
                targets=len(entries) if at in ("", LOCAL) else None,
            )
            for entry in entries
        ]
        campaign_run.require_all_fit(entries, yes=consent.yes, i_know=consent.i_know)
        root = folder or Path("campaigns", f"{datetime.now(UTC):%Y%m%d-%H%M%S}")
        folders = _create_folders(root, entries, plans)
    if at:
        campaigns = list(zip(entries, folders, strict=True))
        shown = run_fleet(campaigns, root, at, cutting, as_json=as_json)
    else:
        shown = _run_here(entries[0], folders[0], consent, as_json=as_json)
    result = CampaignsResult(str(root), tuple(shown), group_targets(shown))
    code = output.campaigns_code(shown)
    with output.exit_if_unprintable(code):
        if as_json:
            output.print_json(to_values(result))
        else:
            make_console().print(draw_campaigns(result))
    sys.exit(code)


def _run_here(
    entry: Entry, folder: CampaignFolder, consent: ConsentOptions, *, as_json: bool
) -> list[CampaignResult]:
    """Run one campaign in this process; the consent also counts for later hosts."""
    return campaign_run.run_one(
        *(entry, folder),
        as_json=as_json,
        yes=consent.yes,
        i_know=consent.i_know,
    )


def _find_place(address: str | None, entries: Sequence[Entry]) -> str:
    """Return the place of the campaigns: an address, LOCAL, or "" for this process.

    Raise UsageError if the workers there cannot run them.
    """
    if address is None and len(entries) == 1:
        return ""
    place = address or LOCAL
    require_unattended(entries)
    require_workers(place, entries)
    return place


def _find_begun_inventory(
    folders: Sequence[CampaignFolder], lookup: InventoryOptions
) -> Path:
    """Return the inventory of the campaigns to resume, unless the user names another.

    Raise UsageError if another user may have begun a campaign: its inventory names
    programs to run.
    """
    if "inventory" in lookup.given:
        return lookup.inventory
    for folder in folders:
        if not folder.is_own():
            raise _foreign_campaign_error(folder.path)
    return Path(folders[0].plan().inventory or lookup.inventory)


def _foreign_campaign_error(folder: Path) -> UsageError:
    words = ("dbcheck", "campaign", "--resume", str(folder), "--inventory", "FILE")
    return UsageError(
        f"{folder} needs --inventory: nothing shows that it is a campaign of yours,"
        " whose inventory may be used",
        id=ErrorId.OPTION_NEEDS_ANOTHER,
        hint=f"Name the inventory yourself: {shlex.join(words)}. Only the account that"
        " began the campaign, with sudo if that was used, can leave it out, and not for"
        " a campaign of an older dbcheck.",
    )


def _refuse_new(
    names: tuple[str, ...],
    everything: bool,
    cuts: int | None,
    until: float | None,
    folder: Path | None,
) -> None:
    if names or everything or cuts or until or folder:
        raise UsageError(
            "--resume continues a campaign by the plan that it was started with",
            id=ErrorId.OPTIONS_CONFLICT,
            hint="Leave out names, --all, --cuts, --until and --folder; or --resume "
            "to start a new campaign.",
        )


def _list_named(
    inventory: Inventory, names: tuple[str, ...], *, everything: bool
) -> list[Entry]:
    """Return the named targets, each once; raise UsageError if names do not fit."""
    if not names and not everything:
        raise UsageError(
            "no target is named",
            id=ErrorId.TARGET_MISSING,
            hint="Name hosts or groups of the inventory, or give --all or --resume.",
        )
    for name in names:
        if names.count(name) > 1:
            raise UsageError(
                f"{name} is named twice",
                id=ErrorId.NAME_GIVEN_TWICE,
                hint="Name it once.",
            )
    if everything and names:
        raise UsageError(
            f"--all is given beside {names[0]}",
            id=ErrorId.OPTIONS_CONFLICT,
            hint="Give names, or --all alone.",
        )
    target_names = inventory.all_targets() if everything else inventory.members(names)
    return find_placed_targets(inventory, target_names)


def _create_folders(
    root: Path, entries: Sequence[Entry], plans: Sequence[CampaignPlan]
) -> list[CampaignFolder]:
    """Make the folder of each campaign: *root*, or in it if there are several."""
    folders = [
        CampaignFolder.create(root if len(entries) == 1 else root / entry.title, plan)
        for entry, plan in zip(entries, plans, strict=True)
    ]
    _remember(folders)
    return folders


def _remember(folders: Sequence[CampaignFolder]) -> None:
    """Note that new campaigns are this user's own; warn if that fails."""
    try:
        for folder in folders:
            folder.remember()
    except RunWriteError as error:
        say(f"--resume will need --inventory: {error}", err=True)
