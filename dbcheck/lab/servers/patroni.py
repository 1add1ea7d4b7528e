"""PostgreSQL that Patroni starts and promotes, as a server of the lab."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import UsageError
from dbcheck.lab import programs
from dbcheck.lab.held_port import HeldPort
from dbcheck.lab.servers.base import USER, Source, standard_name
from dbcheck.lab.servers.postgresql import PostgresqlServer, format_segment_size

_HOST = "127.0.0.1"
_PYTHON = Path("/usr/bin/python3")  # Debian's, which its packages of Patroni are for
# Patroni documentation, Dynamic Configuration Settings.  The first three are the least
# that it allows: by default a standby takes over after 30 s.
_OF_CLUSTER: Mapping[str, object] = {
    "ttl": 20,
    "loop_wait": 1,
    "retry_timeout": 3,
    "maximum_lag_on_failover": 1 << 20,
    "synchronous_mode": True,
    "synchronous_mode_strict": False,
    "synchronous_node_count": 1,
}
_WORDS = {"on": True, "true": True, "off": False, "false": False}


@dataclass(frozen=True, slots=True)
class PatroniMember:
    """Configuration of a member of a cluster that Patroni manages.

    name:       by which the cluster lists it.
    etcd_port:  of the etcd that they share, on 127.0.0.1.
    advertised_port: where the others reach it on 127.0.0.1; 0: at its own port.
    password:   of the account dbcheck, which is the same on all of them.
    after_cut:  False: once it was cut, PostgreSQL starts without Patroni.
    """

    name: str
    etcd_port: int
    advertised_port: int
    password: str
    after_cut: bool


class PatroniServer(PostgresqlServer):
    """A PostgreSQL server below Patroni, which makes its data: see join().

    Patroni's own settings are among the settings; synchronous_standby_names is not, as
    Patroni decides it.
    """

    name = "patroni"
    restarts = True
    stop_signal = signal.SIGTERM
    needs = (
        *PostgresqlServer.needs,
        *("pg_basebackup", "pg_controldata", "pg_ctl", "pg_isready", "pg_rewind"),
        *programs.PATRONI,
    )
    own: ClassVar[frozenset[str]] = PostgresqlServer.own | {
        *("cluster_name", "hot_standby", "primary_conninfo", "wal_log_hints"),
    }
    _member: PatroniMember | None = None
    _api: HeldPort | None = None
    _begun = _without_patroni = False

    @classmethod
    def check_settings(cls, settings: Mapping[str, str]) -> None:
        for name, value in settings.items():
            standard = standard_name(name)
            if standard == "synchronous_standby_names":
                raise UsageError(
                    f"Patroni decides {name} itself",
                    id=ErrorId.LAB_DECIDES_SETTING,
                    hint="Use --setting synchronous_mode=off to have no commit wait.",
                )
            if standard in _OF_CLUSTER and not _is_same_value(
                _OF_CLUSTER[standard], value
            ):
                wanted = "on or off"
                if not isinstance(_OF_CLUSTER[standard], bool):
                    wanted = "a whole number"
                raise UsageError(
                    f"--setting {name}={value} is not what Patroni takes",
                    id=ErrorId.SETTING_INVALID,
                    hint=f"Give {wanted}.",
                )
        super().check_settings(settings)

    @classmethod
    def missing(cls) -> list[str]:
        """Say so, too, if PostgreSQL cannot show the certificate that members check.

        Patroni knows no other way to keep its password from who is not the leader.
        """
        lacking = super().missing()
        if lacking or cls.has_tls():
            return lacking
        postgres = cls._program("postgres")
        return [f"{postgres} was built without TLS (install Debian's postgresql)"]

    @classmethod
    def find(cls, name: str) -> Path | None:
        """Return one of the programs: Patroni's and etcd's, or PostgreSQL's."""
        if name in programs.PATRONI:
            return programs.find_patroni(name)
        return super().find(name)

    def join(self, member: PatroniMember) -> None:
        """Make the empty folders; Patroni fills them when it starts.

        In place of initialise().
        """
        self._prepare(member.password)
        self._member, self._api = member, HeldPort()

    def rejoin(self, source: Source) -> None:
        """Leave it to Patroni, which rewinds a server that it cannot use as it is."""
        assert self._member is not None  # after join()
        self._member = replace(self._member, after_cut=True)

    def _launch(self) -> None:
        assert self._member is not None  # after join()
        self._without_patroni = self._begun and not self._member.after_cut
        of = PostgresqlServer if self._without_patroni else PatroniServer
        self.stop_signal = of.stop_signal
        super()._launch()
        self._begun = True

    def _command(self) -> tuple[list[str], Path | None]:
        if self._without_patroni:
            return super()._command()
        text = json.dumps(self._configuration())
        file = self._write_secret("patroni.json", text)  # which is YAML, too
        patroni = self._program("patroni")
        python = [str(_PYTHON)] if _is_fetched(patroni) else []
        return [*python, str(patroni), str(file)], None

    def _parameters(self) -> dict[str, str]:
        ours = super()._parameters()
        return {k: v for k, v in ours.items() if standard_name(k) not in _OF_CLUSTER}

    def _environment(self) -> dict[str, str]:
        own, patroni = super()._environment(), self._program("patroni")
        if not _is_fetched(patroni):
            return own
        libraries = patroni.parents[1] / "lib"
        folders = {path.parent for path in libraries.glob("*/lib*.so.*")}
        return {
            **own,
            "PYTHONPATH": str(libraries / "python3/dist-packages"),
            "LD_LIBRARY_PATH": os.pathsep.join(map(str, sorted(folders))),
        }

    def _takes_queries(self, pid: int) -> bool:
        """Read the status of the server that Patroni has started."""
        if self._without_patroni:
            return super()._takes_queries(pid)
        lines = self._pid_file_lines()
        started = int(lines[0]) if lines and lines[0].isdecimal() else 0
        return started in self.pids() and super()._takes_queries(started)

    def _configuration(self) -> dict[str, Any]:
        """Return Patroni's configuration (its documentation, YAML Configuration)."""
        assert self._member is not None  # after join()
        address = f"{_HOST}:{self.port}"
        advertised = f"{_HOST}:{self._member.advertised_port or self.port}"
        account = {"username": USER, "password": self._member.password}
        login = {**account, **self._verification_options()}
        parameters = self._parameters()
        del parameters["listen_addresses"]  # follows from where it is to listen
        of_cluster = _make_cluster_settings(self.settings)
        of_cluster["postgresql"] = {"use_pg_rewind": True, "parameters": parameters}
        log = [{"waldir": str(self.log_data)}] if self.log_data else []
        return {
            "scope": "dbcheck",
            "name": self._member.name,
            **self._talk(self._member.etcd_port, account),
            "bootstrap": {"dcs": of_cluster, "initdb": [*self._initdb(), *log]},
            "postgresql": {
                "listen": address,
                "connect_address": advertised,
                "data_dir": str(self.data),
                "bin_dir": str(self._program("postgres").parent),
                "pgpass": str(self.server_run / "pgpass"),
                "authentication": {"superuser": login, "replication": login},
                "basebackup": ["no-sync", {"checkpoint": "fast"}, *log],
                "pg_hba": [
                    f"host {database} all {_HOST}/32 scram-sha-256"
                    for database in ("all", "replication")
                ],
                "parameters": parameters,
            },
        }

    def _talk(self, etcd_port: int, account: dict[str, str]) -> dict[str, Any]:
        """Return the settings for etcd and other members; all show certificates.

        account: what it sends them, so nobody else may answer in their place.
        """
        assert self._api is not None  # after join()
        assert self.tls is not None  # after set_identity()
        authority = str(self.tls.authority)
        certificate, key = str(self.tls.certificate), str(self.tls.key)
        api = f"{_HOST}:{self._api.number}"
        return {
            "restapi": {
                "listen": api,
                "connect_address": api,
                "authentication": account,
                **{"certfile": certificate, "keyfile": key, "cafile": authority},
                "verify_client": "required",
            },
            "ctl": {"certfile": certificate, "keyfile": key, "cacert": authority},
            "etcd3": {
                "host": f"{_HOST}:{etcd_port}",
                "protocol": "https",
                **{"cert": certificate, "key": key, "cacert": authority},
            },
        }

    def _initdb(self) -> list[object]:
        sizes = [flag.split("=")[1] for flag in format_segment_size(self.settings)]
        return [
            {"encoding": "UTF8"},
            {"auth": "scram-sha-256"},
            *("no-locale", "data-checksums", "no-sync"),
            *({"wal-segsize": size} for size in sizes),
        ]


def is_synchronous(settings: Mapping[str, str]) -> bool:
    """Return True if Patroni has commits wait for a standby, given these settings."""
    return bool(_make_cluster_settings(settings)["synchronous_mode"])


def _make_cluster_settings(settings: Mapping[str, str]) -> dict[str, object]:
    """Return the settings of Patroni, which all nodes of a cluster share."""
    given = {
        standard_name(name): _parse_value(value) for name, value in settings.items()
    }
    return {name: given.get(name, value) for name, value in _OF_CLUSTER.items()}


def _is_same_value(ours: object, value: str) -> bool:
    return value.lower() in _WORDS if isinstance(ours, bool) else value.isdigit()


def _parse_value(value: str) -> object:
    return int(value) if value.isdigit() else _WORDS.get(value.lower(), value)


def _is_fetched(patroni: Path) -> bool:
    return patroni.is_relative_to(programs.patroni_folder())
