"""Database services whose servers run on hosts that are the provider's alone.

Only the provider can log in to such a host or cut its power; a user can force a
failover.  A service is recognised by the host name of a URL and by what its
servers show; either is enough.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

# The name of a fact beside a server's settings; only a server of a service has it.
SERVICE = "managed service"

RDS, AURORA = "Amazon RDS", "Amazon Aurora"
CLOUD_SQL, ALLOYDB = "Google Cloud SQL", "Google AlloyDB"
AZURE = "Azure Database"

# Endings of host names: Amazon RDS User Guide, Amazon Aurora User Guide, Finding the
# connection information; Cloud SQL, Connect using a DNS name; Azure Database for
# PostgreSQL and for MySQL, Connectivity and networking concepts.
_SERVICE_OF_HOST_ENDING = {
    ".rds.amazonaws.com": RDS,
    ".rds.amazonaws.com.cn": RDS,
    ".sql.goog": CLOUD_SQL,
    ".postgres.database.azure.com": AZURE,
    ".mysql.database.azure.com": AZURE,
    ".mariadb.database.azure.com": AZURE,
}
_AURORA_ENDPOINTS = (".cluster-", ".cluster-ro-", ".cluster-custom-")

# Beginnings of settings that no other PostgreSQL has: Amazon RDS and Aurora User Guide,
# parameters; Cloud SQL and AlloyDB, Configure database flags; Azure, Server parameters.
_SERVICE_OF_POSTGRESQL_PREFIX = {
    "apg_": AURORA,
    "aurora_": AURORA,
    "rds.": RDS,
    "alloydb.": ALLOYDB,
    "cloudsql.": CLOUD_SQL,
    "azure.": AZURE,
}
_SERVICE_OF_MYSQL_PREFIX = {"aurora_": AURORA, "azure_": AZURE, "cloudsql_": CLOUD_SQL}
# Where Amazon's servers have their programs and data, as their own parameters show.
_RDS_FOLDERS = ("/rdsdbbin", "/rdsdbdata")
_SERVICE_OF_MYSQL_WORD = {"google": CLOUD_SQL, "azure": AZURE}


# Databases of the providers, on every server of theirs.
OWN_DATABASES = frozenset(
    {"rdsadmin", "cloudsqladmin", "alloydbadmin", "azure_maintenance", "azure_sys"}
)


def find_service_of_host(host: str) -> str:
    """Return the service that a server's *host* name belongs to, "" if to none."""
    name = host.lower().rstrip(".")
    for ending, service in _SERVICE_OF_HOST_ENDING.items():
        if name.endswith(ending):
            aurora = service == RDS and any(w in name for w in _AURORA_ENDPOINTS)
            return AURORA if aurora else service
    return ""


def find_service_of_hosts(hosts: Iterable[str]) -> str:
    """Return the service of the first of these hosts that belongs to one, else ""."""
    return next(filter(None, map(find_service_of_host, hosts)), "")


def find_service_of_postgresql(settings: Mapping[str, str]) -> str:
    """Return the service whose server has *settings*, all that it shows; "" if none."""
    if service := _find_service_by_prefix(settings, _SERVICE_OF_POSTGRESQL_PREFIX):
        return service
    return RDS if settings.get("data_directory", "").startswith(_RDS_FOLDERS) else ""


def find_service_of_mysql(
    variables: Mapping[str, str], version: str, comment: str
) -> str:
    """Return the service whose server has *variables*, "" if none.

    version, comment: version() and @@version_comment: "8.0.31-google" and "(Google)" on
    Cloud SQL (as dumps and clients of it print).
    """
    if service := _find_service_by_prefix(variables, _SERVICE_OF_MYSQL_PREFIX):
        return service
    words = f"{version} {comment}".lower()
    for word, service in _SERVICE_OF_MYSQL_WORD.items():
        if word in words:
            return service
    places = (variables.get("basedir", ""), variables.get("datadir", ""))
    return RDS if any(place.startswith(_RDS_FOLDERS) for place in places) else ""


def _find_service_by_prefix(names: Iterable[str], known: Mapping[str, str]) -> str:
    found = [name.lower() for name in names]
    for beginning, service in known.items():
        if any(name.startswith(beginning) for name in found):
            return service
    return ""
