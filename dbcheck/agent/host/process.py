"""Finds what may stop a server's flushes from reaching its files.

Also finds the file that its standard error goes to.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
import struct
from collections.abc import Iterator, Sequence
from typing import Any

from dbcheck.agent.host.open import name_path_in_errors, open_folder_in, open_regular
from dbcheck.agent.host.servers import DELETED, find_server_processes
from dbcheck.agent.wire import Refusal, describe_error

PRELOAD = "/etc/ld.so.preload"  # ld.so(8)
NO_PROCESS = "no process of the server can be seen there"
FLUSH_FUNCTIONS = (b"fsync", b"fdatasync")  # every supported server flushes by these
# The libraries that define these functions for every program: glibc, in older releases
# libpthread, and musl.
C_LIBRARY = re.compile(r"(libc|libpthread)([.-][0-9.]*)?\.so(\.[0-9]+)?|ld-musl-.*")
# MariaDB's option under which it flushes nothing, and the variable that it sets
# (mysys/my_sync.c; os0file.cc, os_file_flush_func).  No statement shows the
# option.  An option may be shortened as long as no other option begins so, and "_" is
# "-" (MariaDB documentation, Option Files).  MySQL 8.0 and later have no such option.
NO_SYNC = "debug-no-sync"
NO_SYNC_SHORTEST = "debug-no-s"  # the shortest unambiguous abbreviation
NO_SYNC_VARIABLE = b"my_disable_sync"
AT_ENTRY = 9  # getauxval(3)
ADDRESS_END = 1 << 63
VARIABLE_BYTES_MAX = 8
TEXT_BYTES_MAX = 1 << 20  # of a text in /proc
TABLE_BYTES_MAX = 32 << 20  # of a table of symbols, or of their names
SECTIONS_MAX = 4096
PROGRAM_BYTES_MAX = 1 << 30  # far more than a server's program has
# ELF, 64 bits (elf(5)): the header's e_shoff, e_shentsize and e_shnum; a section's
# sh_type, sh_offset, sh_size and sh_link; a symbol's st_name, st_shndx, st_value and
# st_size.
HEADER, SECTION, SYMBOL = "40xQ10xHH2x", "4xI16xQQI20x", "I2xHQQ"
ELF_ENTRY = "24xQ"  # the header's e_entry
SHT_DYNSYM = 11  # sh_type of the symbols that an object shares with others


def find_error_file(directory: str) -> str:
    """Return the file that the server's standard error goes to, "" if it is not a file.

    The standard error of PostgreSQL's processes is a pipe to the logging collector,
    which itself keeps the standard error that the server was started with (syslogger.c,
    SysLogger_Start).  Raise Refusal if what is written there cannot be read.
    """
    for folder in find_server_processes(directory):
        link = folder + "/fd/2"
        try:
            path, status = os.readlink(link), os.stat(link)
        except OSError:
            continue
        if stat.S_ISCHR(status.st_mode):
            raise Refusal("log", "the server's standard error goes to " + path)
        if not stat.S_ISREG(status.st_mode):  # a pipe, or the socket of the journal
            continue
        if not (os.path.exists(path) and os.path.samestat(os.stat(path), status)):
            # The file was deleted, or its path is inside a container.
            raise Refusal("log", "the server's log is not on this filesystem: " + path)
        return path
    return ""


def describe_server_process(directory: str) -> dict[str, Any]:
    """Describe what may stop the flushes of *directory*'s server before its files.

    See model.host.ServerProcess.
    """
    # The first process started the others.
    folder = next(find_server_processes(directory), "")
    if not folder:
        return make_unread_process(NO_PROCESS)
    try:
        return describe_process(folder)
    except OSError as error:
        return make_unread_process(describe_error(error, folder))


def make_unread_process(why: str) -> dict[str, Any]:
    """Return the description of a process that could not be read, for reason *why*."""
    return {
        "no_sync": "",
        "preloaded": [],
        "replaced": {},
        "unread": why,
        "no_sync_unread": why,
    }


def describe_process(folder: str) -> dict[str, Any]:
    """Describe the process in *folder*; raise OSError."""
    command = read_text(folder + "/cmdline").split("\0")
    variables = read_text(folder + "/environ").split("\0")
    preloaded = [v.partition("=")[2] for v in variables if v.startswith("LD_PRELOAD=")]
    root = folder + "/root"
    with contextlib.suppress(FileNotFoundError):
        lines = read_preload_file(root).splitlines()
        preloaded += [line.partition("#")[0] for line in lines]
    program = os.readlink(folder + "/exe")
    replaced: dict[str, list[str]] = {}
    unread = ""
    for path, where in list_mapped_files(folder).items():
        name = os.path.basename(path)
        was_removed = name.endswith(DELETED)
        if was_removed:
            name = name[: -len(DELETED)]
        if path == program or C_LIBRARY.fullmatch(name):
            continue
        try:
            if found := find_defined_symbols(
                where if was_removed else root + path, FLUSH_FUNCTIONS
            ):
                replaced[path] = sorted(found)
        except (OSError, struct.error) as error:
            unread = unread or describe_read_error(error, path)
    no_sync, no_sync_unread = find_sync_bypass(folder, command)
    return {
        "no_sync": no_sync,
        "no_sync_unread": no_sync_unread,
        "preloaded": re.findall(r"[^\s:]+", " ".join(preloaded)),
        "replaced": replaced,
        "unread": unread,
    }


def read_preload_file(root: str) -> str:
    """Read a process's /etc/ld.so.preload; raise OSError.

    root: the root folder of the process, in which its account may have put or mounted
    any file of the host at this path (user_namespaces(7)).  So no link is followed, and
    only a file that everybody may read is read.
    """
    path = root + PRELOAD
    with contextlib.ExitStack() as held:
        top = os.open(root, os.O_PATH | os.O_CLOEXEC)
        held.callback(os.close, top)
        try:
            folder = open_folder_in(top, "etc", os.path.dirname(path), search_only=True)
        except Refusal as refusal:
            raise OSError(0, str(refusal), path) from None
        held.callback(os.close, folder)
        with name_path_in_errors(path):
            file = open_regular(os.path.basename(path), folder=folder)
    with os.fdopen(file, "rb") as stream:
        if not os.fstat(file).st_mode & stat.S_IROTH:
            raise OSError(0, "not everybody may read it", path)
        return stream.read(TEXT_BYTES_MAX).decode("utf-8", "replace")


def find_sync_bypass(folder: str, command: list[str]) -> tuple[str, str]:
    """Return what stops a process's flushes, or "", and why that is not known, or "".

    NO_SYNC_VARIABLE is read in the process's memory: the option may be set in any
    option file and group, under any spelling, and a file may have been changed since
    the server read it.
    command: the process's command line; only this is looked at where its memory is not
             shown.
    """
    option = next((word for word in command[1:] if is_no_sync_option(word)), "")
    try:
        if not are_syncs_off(folder):
            return "", ""
    except (OSError, struct.error) as error:
        why = (
            f"whether {NO_SYNC} is set is not known:"
            f" {describe_read_error(error, folder)}"
        )
        return option, "" if option else why
    return option or NO_SYNC + " (in an option file)", ""


def describe_read_error(error: OSError | struct.error, place: str) -> str:
    """Return *error* as text, with the file that it names, or else *place*."""
    if isinstance(error, OSError):
        return describe_error(error, place)
    return f"{place}: {error}"


def are_syncs_off(folder: str) -> bool:
    """Return True if a server's process flushes nothing; raise OSError, struct.error.

    Raise OSError, too, if the program has NO_SYNC and does not show the variable.
    """
    program = folder + "/exe"
    variable = find_defined_symbols(program, (NO_SYNC_VARIABLE,))
    if not variable:
        if contains_text(program, NO_SYNC.encode()):
            raise OSError(0, f"it does not show {NO_SYNC_VARIABLE.decode()}", program)
        return False
    ((address, size),) = variable.values()
    with open(folder + "/auxv", "rb") as file:
        text = file.read(TEXT_BYTES_MAX)
    entries = dict(struct.iter_unpack("QQ", text[: len(text) // 16 * 16]))
    with os.fdopen(open_regular(program, follow=True), "rb") as file:
        (entry,) = struct.unpack("=" + ELF_ENTRY, file.read(32))
    if AT_ENTRY not in entries:  # the process is ending
        raise OSError(0, "it shows no entry point", folder + "/auxv")
    # In memory all addresses are shifted as the entry point is.  proc(5), mem: the file
    # has the process's memory by address.
    with open(folder + "/mem", "rb", buffering=0) as memory:
        memory.seek((entries[AT_ENTRY] - entry + address) % ADDRESS_END)
        value = memory.read(min(size, VARIABLE_BYTES_MAX))
    if not value:  # the process has ended
        raise OSError(0, "its memory cannot be read", folder + "/mem")
    return any(value)


def contains_text(path: str, text: bytes) -> bool:
    """Return True if *text* stands in a file; raise OSError."""
    end = b""
    with os.fdopen(open_regular(path, follow=True), "rb") as file:
        if os.fstat(file.fileno()).st_size > PROGRAM_BYTES_MAX:
            raise OSError(0, "it is too large to be read", path)
        while part := file.read(TEXT_BYTES_MAX):
            if text in end + part:
                return True
            end = part[-len(text) :]
    return False


def is_no_sync_option(option: str) -> bool:
    """Return True if a word of the command line switches the flushes off."""
    name, _, value = option.lower().replace("_", "-").partition("=")
    for prefix in ("--loose-", "--enable-", "--"):
        if name.startswith(prefix):
            name = name[len(prefix) :]
            is_named = NO_SYNC.startswith(name) and name.startswith(NO_SYNC_SHORTEST)
            return is_named and value not in ("0", "off", "false")
    return False


def list_mapped_files(folder: str) -> dict[str, str]:
    """Return the files that a process has mapped as code, and a link to each.

    By proc(5), maps and map_files: root may follow such a link also to a file that was
    removed, as an upgrade removes the libraries that a server still runs with.
    """
    found: dict[str, str] = {}
    for line in read_text(folder + "/maps").splitlines():
        fields = line.split(None, 5)
        if len(fields) == 6 and "x" in fields[1] and fields[5].startswith("/"):
            found[fields[5]] = f"{folder}/map_files/{fields[0]}"
    return found


def read_text(path: str) -> str:
    """Return the beginning of a file; raise OSError."""
    with os.fdopen(open_regular(path, follow=True), "rb") as file:
        return file.read(TEXT_BYTES_MAX).decode("utf-8", "replace")


def find_defined_symbols(
    path: str, wanted: Sequence[bytes]
) -> dict[str, tuple[int, int]]:
    """Find address and size of the symbols that an ELF object defines for others.

    wanted: their names.  Raise OSError, struct.error.  An object of 32 bits is not
    searched: no server of today is one.
    """
    with os.fdopen(open_regular(path, follow=True), "rb") as file:
        ident = file.read(16)
        if ident[:5] != b"\x7fELF\x02":
            return {}
        order = "<" if ident[5] == 1 else ">"
        table_offset, entry_size, count = struct.unpack(
            order + HEADER, b"".join((ident, file.read(48)))
        )
        sections = []
        for number in range(min(count, SECTIONS_MAX)):
            file.seek(table_offset + number * entry_size)
            sections.append(struct.unpack(order + SECTION, file.read(64)))
        found: dict[str, tuple[int, int]] = {}
        for kind, offset, length, link in sections:
            if kind != SHT_DYNSYM or link >= len(sections):
                continue
            file.seek(sections[link][1])
            names = file.read(min(sections[link][2], TABLE_BYTES_MAX))
            places = dict(find_names(names, wanted))
            if not places:
                continue
            file.seek(offset)
            symbols = file.read(min(length, TABLE_BYTES_MAX) // 24 * 24)
            for symbol in struct.iter_unpack(order + SYMBOL, symbols):
                name_offset, section, address, size = symbol
                if section and name_offset in places:  # 0: defined elsewhere
                    found[places[name_offset]] = (address, size)
    return found


def find_names(names: bytes, wanted: Sequence[bytes]) -> Iterator[tuple[int, str]]:
    """Yield the offset of each wanted name in a name table, and the name.

    It may be the tail of a longer name, since ELF string tables share tails.
    """
    for name in wanted:
        offset = names.find(name + b"\0")
        while offset >= 0:
            yield offset, name.decode()
            offset = names.find(name + b"\0", offset + 1)
