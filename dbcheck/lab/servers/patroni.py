"""PostgreSQL that Patroni starts and promotes, as a server of the lab."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from dbcheck.base import processes
from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import UsageError
from dbcheck.lab import programs
from dbcheck.lab.held_port import HeldPort
from dbcheck.lab.network import LOOPBACK, Source
from dbcheck.lab.servers.base import USER, standard_name
from dbcheck.lab.servers.postgresql import (
    PostgresqlServer,
    format_segment_size,
    list_access_lines,
)

_PYTHON = Path("/usr/bin/python3")  # Debian's, which its packages of Patroni are for
_SYNCHRONOUS_MODE, _QUORUM = "synchronous_mode", "quorum"
# Patroni documentation, Dynamic Configuration Settings.  The first three have the least
# values that Patroni allows: by default a standby takes over after 30 s.
_CLUSTER_SETTINGS: Mapping[str, object] = {
    "ttl": 20,
    "loop_wait": 1,
    "retry_timeout": 3,
    "maximum_lag_on_failover": 1 << 20,
    _SYNCHRONOUS_MODE: True,
    "synchronous_mode_strict": False,
    "synchronous_node_count": 1,
}
_BOOLEANS = {"on": True, "true": True, "off": False, "false": False}


@dataclass(frozen=True, slots=True)
class PatroniMember:
    """Configuration of a member of a cluster that Patroni manages.

    name:       the name by which the cluster lists the member.
    etcd_port:  the port of the members' shared etcd.
    advertised_port: the port at which the other members reach this one; 0: the
                server's own port.
    password:   of the account dbcheck, which is the same on all members.
    after_cut:  whether PostgreSQL starts below Patroni after a cut, too.
    etcd_host:  the address of etcd.
    """

    name: str
    etcd_port: int
    advertised_port: int
    password: str
    after_cut: bool
    etcd_host: str = LOOPBACK


class PatroniServer(PostgresqlServer):
    """A PostgreSQL server below Patroni, which makes its data once join() was called.

    The settings may hold those of Patroni itself, but not synchronous_standby_names:
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
    decided_by_lab: ClassVar[frozenset[str]] = PostgresqlServer.decided_by_lab | {
        *("cluster_name", "hot_standby", "primary_conninfo", "wal_log_hints"),
    }
    _member: PatroniMember | None = None
    _api: HeldPort | None = None
    _begun = _without_patroni = False  # _begun: it was started before

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
            if standard in _CLUSTER_SETTINGS and not cls._is_possible(standard, value):
                wanted = "on or off"
                if not isinstance(_CLUSTER_SETTINGS[standard], bool):
                    wanted = "a whole number"
                elif standard == _SYNCHRONOUS_MODE:
                    wanted = "on or off, or quorum with Patroni 4"
                raise UsageError(
                    f"--setting {name}={value} is not what Patroni takes",
                    id=ErrorId.SETTING_INVALID,
                    hint=f"Give {wanted}.",
                )
        super().check_settings(settings)

    @classmethod
    def _is_possible(cls, name: str, value: str) -> bool:
        """Return True if Patroni takes a value of its own setting *name*."""
        return _is_same_type(_CLUSTER_SETTINGS[name], value)

    @classmethod
    def missing(cls) -> list[str]:
        """Return what to install, a PostgreSQL with TLS included.

        Only by the leader's certificate does Patroni make sure that it sends its
        password to no other server.
        """
        programs_missing = super().missing()
        if programs_missing or cls.has_tls():
            return programs_missing
        postgres = cls._program("postgres")
        return [f"{postgres} was built without TLS (install Debian's postgresql)"]

    @classmethod
    def find(cls, name: str) -> Path | None:
        """Return a program of Patroni, etcd or PostgreSQL."""
        if name in (*programs.PATRONI, programs.PATRONI_4):
            return programs.find_patroni(name)
        return super().find(name)

    def join(self, member: PatroniMember) -> None:
        """Make the empty folders; Patroni fills them when it starts.

        In place of initialise().
        """
        self._prepare(member.password)
        self._member, self._api = member, HeldPort()

    def rejoin(self, source: Source) -> None:
        """Let Patroni start the server; it rewinds data that cannot be used as is."""
        self.set_role(is_writer=False)

    def follow(self, source: Source) -> None:
        """Let Patroni start the server without data; it copies those of the leader."""
        self._prepare(source.password)
        self.set_role(is_writer=False)

    def set_role(self, *, is_writer: bool) -> None:
        """Set whether Patroni starts the server after a cut: not the writer."""
        assert self._member is not None  # after join()
        self._member = replace(self._member, after_cut=not is_writer)

    def _launch(self) -> None:
        assert self._member is not None  # after join()
        self._without_patroni = self._begun and not self._member.after_cut
        kind = PostgresqlServer if self._without_patroni else PatroniServer
        self.stop_signal = kind.stop_signal
        super()._launch()
        self._begun = True

    def _command(self) -> tuple[list[str], Path | None]:
        if self._without_patroni:
            return super()._command()
        text = json.dumps(self._configuration())
        file = self._write_secret("patroni.json", text)  # JSON is YAML, too
        return [*self._patroni(), str(file)], None

    def _patroni(self) -> list[str]:
        """Return the command that runs Patroni, without its file of settings."""
        patroni = self._program("patroni")
        python = [str(_PYTHON)] if _is_fetched(patroni) else []
        return [*python, str(patroni)]

    def _parameters(self) -> dict[str, str]:
        parameters = super()._parameters()
        return {
            name: value
            for name, value in parameters.items()
            if standard_name(name) not in _CLUSTER_SETTINGS
        }

    def _environment(self) -> dict[str, str]:
        variables, patroni = super()._environment(), self._program("patroni")
        if not _is_fetched(patroni):
            return variables
        libraries = patroni.parents[1] / "lib"
        folders = {path.parent for path in libraries.glob("*/lib*.so.*")}
        return {
            **variables,
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
        listened = ",".join(filter(None, (LOOPBACK, self.address)))
        address = f"{listened}:{self.port}"
        advertised = f"{self._host}:{self._member.advertised_port or self.port}"
        account = {"username": USER, "password": self._member.password}
        login = {**account, **self._verification_options()}
        parameters = self._parameters()
        del parameters["listen_addresses"]  # Patroni derives it from "listen" below
        cluster_settings = _make_cluster_settings(self.settings)
        cluster_settings["postgresql"] = {
            "use_pg_rewind": True,
            "parameters": parameters,
        }
        log = [{"waldir": str(self.log_data)}] if self.log_data else []
        return {
            "scope": "dbcheck",
            "name": self._member.name,
            **self._talking_settings(account),
            "bootstrap": {
                "dcs": cluster_settings,
                "initdb": [*self._initdb_options(), *log],
            },
            "postgresql": {
                "listen": address,
                "connect_address": advertised,
                "data_dir": str(self.data),
                "bin_dir": str(self._program("postgres").parent),
                "pgpass": str(self.server_run / "pgpass"),
                "authentication": {"superuser": login, "replication": login},
                "basebackup": ["no-sync", {"checkpoint": "fast"}, *log],
                "pg_hba": list_access_lines(
                    "all" if self.address else f"{LOOPBACK}/32"
                ),
                "parameters": parameters,
            },
        }

    def _talking_settings(self, account: dict[str, str]) -> dict[str, Any]:
        """Return how Patroni talks to etcd and the other members: by certificates.

        account: Patroni sends it to the other members, so nobody else may answer in
                 their place.
        """
        assert self._member is not None  # after join(), as the next one
        assert self._api is not None
        assert self.tls is not None  # after set_identity()
        authority = str(self.tls.authority)
        certificate, key = str(self.tls.certificate), str(self.tls.key)
        api = f"{self._host}:{self._api.number}"
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
                "host": f"{self._member.etcd_host}:{self._member.etcd_port}",
                "protocol": "https",
                **{"cert": certificate, "key": key, "cacert": authority},
            },
        }

    @property
    def _host(self) -> str:
        """The address at which the other members reach this one."""
        return self.address or LOOPBACK

    def _access_settings(self) -> dict[str, str]:
        """Return {}: Patroni sets what it listens at, and writes pg_hba.conf."""
        return {}

    def _initdb_options(self) -> list[object]:
        sizes = [flag.split("=")[1] for flag in format_segment_size(self.settings)]
        return [
            {"encoding": "UTF8"},
            {"auth": "scram-sha-256"},
            *("no-locale", "data-checksums", "no-sync"),
            *({"wal-segsize": size} for size in sizes),
        ]


class Patroni4Server(PatroniServer):
    """A PostgreSQL server below Patroni 4.

    It has synchronous_mode: quorum, in which commits wait for a number of standbys and
    not for those that it names (Patroni 4 documentation, Replication modes).
    """

    name = "patroni-4"
    needs = (*PatroniServer.needs, programs.PATRONI_4)

    @classmethod
    def _is_possible(cls, name: str, value: str) -> bool:
        is_quorum = name == _SYNCHRONOUS_MODE and value.lower() == _QUORUM
        return is_quorum or super()._is_possible(name, value)

    def _patroni(self) -> list[str]:
        return processes.make_module_command("patroni", python=str(_PYTHON))

    def _environment(self) -> dict[str, str]:
        """Have Python find Patroni 4 before Debian's Patroni."""
        variables = super()._environment()
        folder = str(self._program(programs.PATRONI_4).parent)
        others = (
            variables["PYTHONPATH"] if _is_fetched(self._program("patroni")) else ""
        )
        return {
            **variables,
            "PYTHONPATH": os.pathsep.join(filter(None, (folder, others))),
        }


def is_synchronous(settings: Mapping[str, str]) -> bool:
    """Return True if Patroni has commits wait for a standby under *settings*."""
    return bool(_make_cluster_settings(settings)["synchronous_mode"])


def waits_for_quorum(settings: Mapping[str, str]) -> bool:
    """Return True if Patroni has commits wait for some of all standbys."""
    return _make_cluster_settings(settings)[_SYNCHRONOUS_MODE] == _QUORUM


def _make_cluster_settings(settings: Mapping[str, str]) -> dict[str, object]:
    """Return the settings of Patroni, which all nodes of a cluster share."""
    chosen = {
        standard_name(name): _parse_value(value) for name, value in settings.items()
    }
    return {name: chosen.get(name, value) for name, value in _CLUSTER_SETTINGS.items()}


def _is_same_type(default: object, value: str) -> bool:
    return value.lower() in _BOOLEANS if isinstance(default, bool) else value.isdigit()


def _parse_value(value: str) -> object:
    return (
        int(value) if value.isdigit() else _BOOLEANS.get(value.lower(), value.lower())
    )


def _is_fetched(patroni: Path) -> bool:
    return patroni.is_relative_to(programs.patroni_folder())
