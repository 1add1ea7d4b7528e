"""dbcheck grants: the statements that give dbcheck's account its rights."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from dataclasses import dataclass

import click

import dbcheck
from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import UsageError
from dbcheck.base.points import PointKind
from dbcheck.base.text import visible
from dbcheck.cli import PASS, output
from dbcheck.cli.flags import shared
from dbcheck.cli.flags.entries import find_entry
from dbcheck.cli.flags.groups import Verb, grouped, option
from dbcheck.cli.flags.target import NamedByArgument, TargetUrl
from dbcheck.config import files, workload_file
from dbcheck.engines.mysql import rights as mysql_rights
from dbcheck.engines.postgresql import rights as postgresql_rights
from dbcheck.engines.registry import find_product
from dbcheck.engines.url import read_url
from dbcheck.inventory.entry import Entry
from dbcheck.judge.result import to_values
from dbcheck.model.cluster import SiteKind
from dbcheck.model.replication import PromotedBy
from dbcheck.model.rights import GrantsResult, Right
from dbcheck.rows.plans.registry import usage_of
from dbcheck.rows.workload import Workload
from dbcheck.runner.campaign_plan import WORKLOAD
from dbcheck.server_log import Product

NAME = "dbcheck"  # of the account and of the database that no URL names
_PRODUCTS = {product.lower(): product for product in Product}


@dataclass(frozen=True, slots=True)
class Server:
    """The server that the statements are for; nothing is asked of it.

    user, database: as they are, not quoted.  asks_host: see Engine.require_rights().
    topology: of the cluster that it is a node of.
    names_points: its archive is restored to a restore point.
    """

    product: Product
    user: str = NAME
    database: str = NAME
    asks_host: bool = False
    topology: SiteKind = SiteKind.SINGLE
    forms_group: bool = False
    promotes: bool = False
    names_points: bool = False


@click.command("grants", cls=Verb)
@grouped
@option(
    "--product",
    "product_name",
    type=click.Choice(list(_PRODUCTS)),
    help="What the server is. Default: what the scheme of the URL says. A MariaDB "
    "server behind mysql:// needs --product mariadb.",
)
@option(
    "--workload",
    "workload_name",
    metavar="NAME|FILE",
    help="A workload by its name (see: dbcheck workloads), or a TOML file of your own. "
    f"Default: the inventory's, or {WORKLOAD}, the campaign's, which includes insert.",
    shell_complete=shared.complete_names(files.list_workload_names, or_file=True),
)
@option("--control", is_flag=True, help="Also what --control needs.")
@option(
    "--required",
    "required_only",
    is_flag=True,
    help="Only the rights without which dbcheck refuses to begin.",
)
@shared.as_json()
def command(
    named: NamedByArgument,
    target: TargetUrl,
    product_name: str | None,
    workload_name: str | None,
    control: bool,
    required_only: bool,
    as_json: bool,
) -> None:
    """Print the statements that give dbcheck's account the rights that it needs.

    \b
    dbcheck grants NAME                          a host of an inventory, or a
                                                 group that is a cluster
    dbcheck grants --target URL                  the same by its URL
    dbcheck grants --product mariadb             account and database "dbcheck"

    Nothing is contacted: copy the statements, put a password in place of CHANGE-ME, and
    have an administrator run them. Rights that can be left out come last, each with
    what dbcheck cannot do without it. Whatever loads a server checks the rights of its
    workload first, and names each one that is missing.
    """
    entry = find_entry(named, target, clusters=True, placed=False)
    product = _PRODUCTS[product_name] if product_name else None
    server = describe_server(entry, product)
    workload = workload_file.load(workload_name or entry.workload or WORKLOAD)
    result = list_statements(
        server, workload, control=control, required_only=required_only
    )
    with output.exit_if_unprintable(PASS):
        if as_json:
            output.print_json(to_values(result))
        else:
            output.print_text("".join(f"{line}\n" for line in draw_statements(result)))


def describe_server(entry: Entry, product: Product | None) -> Server:
    """Return the server of *entry*, of the *product* that is named or of its URL's.

    Raise UsageError if neither names one, or they contradict each other.
    """
    if not entry.target:
        if product is None:
            raise UsageError(
                "neither a NAME nor --target nor --product is given",
                id=ErrorId.TARGET_MISSING,
                hint="Name a host of an inventory (dbcheck init writes one), a URL, or"
                " the product.",
            )
        return Server(product)
    by_url, url = find_product(entry.target), read_url(entry.target)
    is_postgresql = by_url is Product.POSTGRESQL
    if product is not None and (product is Product.POSTGRESQL) is not is_postgresql:
        raise UsageError(
            f"--product {product.lower()} contradicts the target's URL, which is of"
            f" {by_url}",
            id=ErrorId.OPTIONS_CONFLICT,
            hint="Leave --product out, or correct the URL.",
        )
    promotes = entry.promoted_by == PromotedBy.SQL.value
    is_cluster = bool(entry.standbys or (entry.kubernetes and entry.topology))
    return Server(
        product or by_url,
        url.username or NAME,
        url.database or (is_postgresql and url.username) or NAME,  # as libpq does
        asks_host=bool(entry.host),
        topology=SiteKind(entry.topology) if is_cluster else SiteKind.SINGLE,
        forms_group=promotes and any(each.cuts_all for each in entry.listed_promises),
        promotes=promotes,
        names_points=entry.copied_by is not None
        and entry.copied_by.until is PointKind.RESTORE_POINT,
    )


def list_statements(
    server: Server, workload: Workload, *, control: bool, required_only: bool = False
) -> GrantsResult:
    """Return the statements for a workload, and for a *control* before it."""
    account, database = _quote_names(server)
    usage = usage_of(workload)
    product, topology = server.product, server.topology
    if product is Product.POSTGRESQL:
        create = postgresql_rights.create_statements(account, database)
        found = postgresql_rights.list_rights(
            *(usage, account, database),
            asks_host=server.asks_host,
            names_points=server.names_points,
        )
        found += postgresql_rights.list_cluster_rights(
            topology, account, promotes=server.promotes, control=control
        )
    else:
        create = mysql_rights.create_statements(account)
        relaxes = control and not topology.is_cluster
        found = mysql_rights.list_rights(
            product, usage, account, database, control=relaxes
        )
        forms, promotes = server.forms_group, server.promotes
        found += mysql_rights.list_cluster_rights(
            *(topology, product, account),
            forms=forms,
            promotes=promotes,
            control=control,
        )
    # What a single server may do without, a cluster may require.
    by_statement: dict[str, Right] = {}
    for each in sorted(found, key=lambda right: not right.is_required):
        if each.is_required or not required_only:
            by_statement.setdefault(each.statement, each)
    return GrantsResult(
        dbcheck.__version__,
        product.value,
        workload.name,
        control,
        account,
        database,
        create,
        tuple(by_statement.values()),
    )


def _quote_names(server: Server) -> tuple[str, str]:
    """Return the account and the database as statements want them.

    Raise UsageError for a name that GRANT takes for something other than an account.
    """
    user, database = server.user, server.database
    if server.product is Product.POSTGRESQL:
        return (
            postgresql_rights.quote_role(user),
            postgresql_rights.quote_name(database),
        )
    return (
        f"{mysql_rights.quote_if_needed(user)}@'%'",
        mysql_rights.quote_database_if_needed(database),
    )


def draw_statements(result: GrantsResult) -> Iterator[str]:
    """Yield the lines of a script for psql, mysql or mariadb; comments say why."""
    control = " and its control" if result.control else ""
    yield (
        f"-- Rights of dbcheck's account on {result.product}, for the workload"
        f" {visible(result.workload)}{control}."
    )
    yield (
        f"-- Account {visible(result.account)}, database {visible(result.database)}."
        " Run this as an administrator."
    )
    if result.product == Product.MYSQL:
        yield "-- MariaDB needs other statements: dbcheck grants --product mariadb."
    yield ""
    if result.product == Product.POSTGRESQL:
        yield "-- Account and database; leave out what is there already. dbcheck itself"
        yield "-- makes no more than a schema with tables there."
    else:
        yield "-- The account. dbcheck itself makes the database, if it is missing, and"
        yield "-- tables in it, no more."
        yield "-- '%' allows every host: name the host that runs dbcheck if you can."
    yield from map(visible, result.create)
    if result.product == Product.POSTGRESQL:
        argument = postgresql_rights.quote_for_psql(result.database)
        yield f"\\connect {visible(argument)}"
    required = [right for right in result.rights if right.is_required]
    optional = [right for right in result.rights if not right.is_required]
    yield ""
    yield "-- REQUIRED: without one of these dbcheck refuses to begin."
    yield from _draw_rights(required)
    if optional:
        yield ""
        yield "-- OPTIONAL: leave out what you do not want."
        yield from _draw_rights(optional)


def _draw_rights(rights: list[Right]) -> Iterator[str]:
    """Yield the statements; what several are for stands above the first of them."""
    explained: tuple[str, ...] = ()
    for right in rights:
        without = right.without and f"Without it: {right.without}"
        texts = (right.why, without)
        if texts != explained:
            yield ""
            yield from _comment(*texts)
        explained = texts
        yield from _comment(right.only)
        yield visible(right.statement)


def _comment(*texts: str) -> Iterator[str]:
    for text in filter(None, texts):
        yield from textwrap.wrap(
            text, 80, initial_indent="-- ", subsequent_indent="-- "
        )
