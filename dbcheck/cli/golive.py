"""dbcheck golive: the whole check of a new server, step by step, and its page."""

from __future__ import annotations

import shlex
import sys
import termios
from datetime import UTC, datetime
from pathlib import Path

import click
from rich.console import Console

import dbcheck
from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import DbcheckError, RunWriteError, UsageError
from dbcheck.cli import FAIL, INCONCLUSIVE, PASS, output
from dbcheck.cli.flags import shared
from dbcheck.cli.flags.groups import FOLDER, Verb, grouped, is_given, option
from dbcheck.cli.flags.newhost import NewHostOptions, is_interactive
from dbcheck.cli.flags.shared import ConsentOptions, draw_seed
from dbcheck.cli.flags.target import NamedByArgument
from dbcheck.cli.say import say
from dbcheck.inventory.entry import Entry
from dbcheck.inventory.load import load_inventory
from dbcheck.judge.result import to_values
from dbcheck.model.golive import GoLiveResult, StepId
from dbcheck.model.verdict import Verdict
from dbcheck.report import golive as report
from dbcheck.report.console import make_console, make_progress_console
from dbcheck.report.words.golive import resume_command
from dbcheck.runner import assemble
from dbcheck.runner.campaign_plan import decide_goal
from dbcheck.runner.golive import GoLive, Guide, measure_cut_s, require_same_target
from dbcheck.runner.golive_folder import GoLiveFolder, GoLivePlan
from dbcheck.runner.golive_steps import Check
from dbcheck.runner.new_inventory import write_new_inventory
from dbcheck.runner.placement import find_placed_server
from dbcheck.runs.stored import make_folder
from dbcheck.witness.window import WindowLimits

CUTS = 11  # at most 24% of cuts lose, if none did
_CODES = {
    Verdict.PASS: PASS,
    Verdict.FAIL: FAIL,
    Verdict.INCONCLUSIVE: INCONCLUSIVE,
}
_OF_NEW = ("cuts", "until", "no_control", "seed", "folder")


@click.command("golive", cls=Verb)
@grouped
@option(
    "--cuts",
    type=click.IntRange(1, 1_000_000),
    metavar="N",
    help=f"Cuts of the campaign. Default: {CUTS}, which show that at most 24% lose.",
)
@shared.until()
@option(
    "--no-control",
    is_flag=True,
    help="Leave out the cut, before the first one that counts, under sessions that are "
    "acknowledged too early.",
)
@shared.seed("Decides the moment of each cut and the sizes of the rows.")
@option(
    "--folder",
    type=FOLDER,
    help="Folder of the new check. Default: one under golive/.",
)
@option(
    "--resume",
    type=FOLDER,
    metavar="FOLDER",
    help="Continue a check at the step that did not finish.",
)
@option(
    "--accept-new-host-key",
    "accept_new_key",
    is_flag=True,
    help="Trust and store the host key of a witness whose key is not known.",
)
@shared.as_json()
def command(
    named: NamedByArgument,
    described: NewHostOptions,
    consent: ConsentOptions,
    cuts: int | None,
    until: float | None,
    no_control: bool,
    seed: int | None,
    folder: Path | None,
    resume: Path | None,
    accept_new_key: bool,
    as_json: bool,
) -> None:
    """Check a new server before it goes live, step by step.

    \b
    dbcheck golive NAME                          a host of an inventory
    dbcheck golive --target URL --witness URL --target-host URL --switch manual
    dbcheck golive --resume FOLDER               continue, also on another day

    The steps: witness, audit, flushes, power test, a first cut with a control, a
    campaign of cuts, report and bundle. Each says before it begins what it does, how
    long it takes and what it changes. The check stops where something is missing or
    loses commits, with the fix; Ctrl-C stops it at any moment. Steps that are done are
    not repeated unless what they depend on has changed. At the end there is one page
    to sign: golive.html in its folder.
    """
    if resume is not None:
        _refuse_new(named, described)
        stored, entry = _open_stored(resume, named)
    else:
        goal = decide_goal(
            CUTS if cuts is None and until is None else cuts, until, None
        )
        root = folder or Path("golive", f"{datetime.now(UTC):%Y%m%d-%H%M%S}")
        entry = _find_entry(named, described, root)
        _require_witness(entry)
        plan = GoLivePlan(
            created=datetime.now(UTC).isoformat(timespec="seconds"),
            dbcheck=dbcheck.__version__,
            name=entry.name,
            target=entry.target,
            inventory=entry.inventory,
            cuts=goal.count_cuts(0),
            bound_ppm=goal.bound_ppm,
            control=not no_control,
            seed=draw_seed(seed),
        )
        stored = GoLiveFolder.create(root, plan)
        _remember(stored)
    check = Check(
        entry=entry,
        folder=stored,
        plan=stored.plan(),
        yes=consent.yes,
        i_know=consent.i_know,
        accept_new_key=accept_new_key,
        as_json=as_json,
        show=lambda text: say(text, err=True),
        resume=resume_command(str(stored.path)),
    )
    require_same_target(entry, check)
    _end_with(_run(check), as_json=as_json)


def _run(check: Check) -> GoLiveResult:
    """Run the check; say how to continue it if it did not come to its end."""
    console = make_progress_console()
    report.show(
        console, report.draw_title(check.plan.name, check.plan.cuts, check.folder.path)
    )

    def begin(step: StepId, to_come: int) -> None:
        drawn = report.draw_beginning(
            step,
            control=check.plan.control,
            by_hand=check.entry.power.attended,
            cuts=check.plan.cuts,
            to_come=to_come,
            each_s=measure_cut_s(check.folder),
        )
        report.show(console, drawn)

    guide = Guide(
        begin=begin,
        end=lambda result: report.show(console, report.draw_ending(result)),
        keep=lambda result: report.show(console, report.draw_kept(result)),
        repeat=lambda *given: report.show(console, report.draw_repeated(*given)),
        agree=lambda check: _ask_to_cut(check, console),
    )
    try:
        return GoLive(check, guide).run()
    except (KeyboardInterrupt, click.Abort, DbcheckError):  # Abort: at the question
        say("", f"The check is not over. Continue it with: {check.resume}", err=True)
        raise


def _ask_to_cut(check: Check, console: Console) -> bool | None:
    """Ask whether the power may be cut; return None if nobody can be asked.

    The first cut of a host then needs --yes.  What was typed before the question is no
    answer to it.
    """
    if check.yes or check.as_json or not is_interactive():
        return None
    about = f"dbcheck would {check.entry.switched_host.describe()}."
    report.show(console, report.draw_question(about))
    termios.tcflush(sys.stdin, termios.TCIFLUSH)
    name = check.plan.name
    question = f"Cut the power of {name} now, and in the steps that follow?"
    if check.entry.power.attended:  # or somebody pulls the plug at this question
        question = (
            f"Load {name}, and cut its power yourself each time dbcheck tells you?"
        )
    return click.confirm(question, default=False, err=True)


def _end_with(result: GoLiveResult, *, as_json: bool) -> None:
    code = _CODES[result.verdict]
    with output.exit_if_unprintable(code):
        if as_json:
            output.print_json(to_values(result))
        else:
            make_console().print(report.draw_golive(result))
    sys.exit(code)


def _find_entry(named: NamedByArgument, described: NewHostOptions, root: Path) -> Entry:
    """Return the host; one that flags describe gets an inventory in the folder *root*.

    Raise UsageError if neither is given, or both.
    """
    given = bool(described.given)
    if named.name and given:
        raise UsageError(
            f"{described.flags_given()[0]} cannot be combined with the name"
            f" {named.name}",
            id=ErrorId.OPTIONS_CONFLICT,
            hint="The inventory describes a named host; give one of the two.",
        )
    if named.name:
        return find_placed_server(load_inventory(named.inventory), named.name)
    if not given:
        raise UsageError(
            "neither a NAME nor --target is given",
            id=ErrorId.TARGET_MISSING,
            hint="Name a host of an inventory (dbcheck init writes one), or give"
            " --target and --witness; or --resume to continue a check.",
        )
    host = described.make_host()
    if host.has_recipe:
        raise UsageError(
            f"--switch {host.switch} needs values of your switch",
            id=ErrorId.OPTION_NEEDS_ANOTHER,
            hint=f"Write an inventory (dbcheck init --switch {host.switch}), put them"
            " into it, and give its NAME.",
        )
    GoLiveFolder(root).require_unused()
    make_folder(root)
    write_new_inventory(root / "inventory.yml", host)
    return load_inventory(root / "inventory.yml").entry(host.name)


def _require_witness(entry: Entry) -> None:
    """Raise UsageError for a URL of a witness that must not be stored or shown."""
    assemble.make_witness(entry, WindowLimits()).close()


def _refuse_new(named: NamedByArgument, described: NewHostOptions) -> None:
    """Raise UsageError for what a stored check has decided."""
    context = click.get_current_context()
    if named.name or described.given or any(is_given(context, x) for x in _OF_NEW):
        raise UsageError(
            "--resume continues a check by the plan that it was started with",
            id=ErrorId.OPTIONS_CONFLICT,
            hint="Leave out the name, the options of the host, --cuts, --until,"
            " --no-control, --seed and --folder; or --resume to begin a new check.",
        )


def _open_stored(path: Path, named: NamedByArgument) -> tuple[GoLiveFolder, Entry]:
    """Return a stored check, and its host by the inventory that it was begun with.

    Raise UsageError if another user may have begun it: its inventory names programs to
    run.
    """
    folder = GoLiveFolder.open(path)
    inventory = named.inventory
    if "inventory" not in named.given:
        if not folder.is_own():
            words = ("dbcheck", "golive", "--resume", str(path), "--inventory", "FILE")
            raise UsageError(
                f"{path} needs --inventory: nothing shows that it is a check of yours,"
                " whose inventory may be used",
                id=ErrorId.OPTION_NEEDS_ANOTHER,
                hint=f"Name the inventory yourself: {shlex.join(words)}.",
            )
        inventory = Path(folder.plan().inventory)
    entry = find_placed_server(load_inventory(inventory), folder.plan().name)
    _require_witness(entry)
    return folder, entry


def _remember(folder: GoLiveFolder) -> None:
    """Note that a new check is this user's own; warn if that fails."""
    try:
        folder.remember()
    except RunWriteError as error:
        say(f"--resume will need --inventory: {error}", err=True)
