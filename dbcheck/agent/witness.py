"""The agent on the witness: append frames to a log, make them durable, confirm them.

This module is sent after the modules that witness/witness.py names.  The agent ends
with the channel, and needs a POSIX system.  Only this module defines the log's frames.

A run has log 0 and, if its load runs in several processes, one more for each: the run's
manifest says how many.  A log is a sequence of frames, little endian:

    magic     4 bytes
    crc       CRC-32 of the rest of the frame, 4 bytes
    length    of the body, 4 bytes
    kind      HEADER, ACKS or EVENT, 4 bytes
    count     acks in the body, 4 bytes
    clock_us  the witness's own clock, microseconds since the epoch, 8 bytes
    chain     first 16 bytes of the SHA-256 over all earlier frames
    body      HEADER and EVENT: JSON; ACKS: not read here, see dbcheck.rows.acks

The header names the run and the log's number; as the chain begins with it, no frame
of one log can pass for one of another.
"""

from __future__ import annotations

import base64
import contextlib
import fcntl
import hashlib
import json
import os
import re
import shutil
import struct
import time
import zlib
from collections.abc import Callable
from typing import Any

from dbcheck.agent.wire import (
    CHUNK_BYTES,
    DATA,
    END,
    ERROR,
    MARK,
    RESULT,
    Refusal,
    ReplyStream,
    call,
    clock_us,
    describe_error,
    errno_name,
    find_file_server,
    find_mount,
    make_folder,
    prepare_process,
    read_boot_time_us,
    read_host_names,
    serve,
    sync_folder,
    to_json,
    write_all,
    write_durably,
)
from dbcheck.agent.witness_folders import (
    RUN_ID,
    find_present,
    list_folder,
    open_file,
    require_makeable,
    require_own,
    resolve_folder,
    resolve_own_folder,
    run_folder,
)
from dbcheck.base.system import sync_data

FORMAT = 2
MAGIC = b"\xdbW\x1aL"
FRAME = struct.Struct("<4sIIIIQ16s")
CRC_END = 8  # offset after the crc, which covers the rest of the frame
CHAIN_BYTES = 16
HEADER, ACKS, EVENT = 1, 2, 3
BODY_BYTES_MAX = 1 << 18
WRITE_BYTES_MAX = 1 << 20  # a write has at most this and one frame

# Verbs; the batches, APPEND and NOTE, carry the token of their log, as LEAVE does.
FACTS, PROBE, CREATE, JOIN, APPEND, NOTE, RUNS, MANIFEST, READ, REMOVE = range(1, 11)
LOCK, JUDGED, LEAVE = 11, 12, 13
# A mark: frames, acks, events, digest; clock_us, as in a frame, when it was sent.
MARKED = struct.Struct("<QQQ32sQ")

LOG_NAMES = re.compile(r"acks(-[1-9][0-9]*)?\.log")
MANIFEST_NAME = "manifest.json"
JUDGED_NAME = "judged"  # an empty file: the run's rows were read
VOLATILE = ("tmpfs", "ramfs", "devtmpfs", "rootfs", "mfs")
PROBE_COUNT_MAX = 10000
PROBE_BYTES = 512


def make_frame(
    kind: int, count: int, clock_us: int, chain: bytes, body: bytes
) -> bytes:
    """Return the bytes of one frame."""
    head = FRAME.pack(MAGIC, 0, len(body), kind, count, clock_us, chain)
    crc = zlib.crc32(body, zlib.crc32(head[CRC_END:]))
    return FRAME.pack(MAGIC, crc, len(body), kind, count, clock_us, chain) + body


def require_disk(folder: str, *, volatile: bool) -> None:
    """Refuse a folder in memory, unless *volatile* allows it."""
    kind = find_mount(folder)["type"]
    if volatile:
        return
    if not kind:
        raise Refusal("volatile", f"the filesystem of {folder} cannot be determined")
    if kind in VOLATILE:
        raise Refusal("volatile", f"{folder} is on {kind}, which is memory")


def make_token(run_id: str, number: int) -> int:
    """Return the token that every batch for log *number* of the run must carry."""
    return zlib.crc32(f"{run_id}/{number}".encode())


def log_name(number: int) -> str:
    """Return the name of the file that holds log *number* of a run."""
    return f"acks-{number}.log" if number else "acks.log"


class Log:
    """A log of a run, open for appending.

    add() frames a batch, commit() makes all added batches durable.  After the first
    failure nothing is ever confirmed again: a failed fsync drops the dirty pages, and
    the next fsync would succeed without them.
    """

    def __init__(self, folder: str, run_id: str, number: int) -> None:
        """Create the log, which must not exist, with its header, durably."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
        self.path = path = os.path.join(folder, log_name(number))
        self.token = make_token(run_id, number)
        self.why_failed: str | None = None
        self._fd = os.open(path, flags, 0o600)
        self._sha = hashlib.sha256()
        self._pending: list[bytes] = []
        self._pending_bytes = 0
        self._is_synced = True
        self._size = 0
        self._added = [0, 0, 0]  # frames, acks, events
        self._mark: tuple[int, int, int, bytes] = (0, 0, 0, self._sha.digest())
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            header = {"format": FORMAT, "run": run_id, "log": number}
            self._add(HEADER, 0, json.dumps(header).encode())
            self.commit()
        except BaseException:
            self.close()
            os.unlink(path)  # made above, so it holds no ack
            raise

    def add(self, verb: int, count: int, body: bytes) -> None:
        """Frame one batch; commit() writes and confirms it."""
        if not 0 < len(body) <= BODY_BYTES_MAX:
            self.why_failed = f"a batch of {len(body)} bytes came in"
        if self.why_failed:
            raise Refusal("log", f"{self.path}: {self.why_failed}")
        self._add(ACKS if verb == APPEND else EVENT, count, body)
        if self._pending_bytes >= WRITE_BYTES_MAX:
            self.commit()

    def write(self) -> None:
        """Write all added batches in one go; commit() makes them durable."""
        if self.why_failed:
            raise Refusal("log", f"{self.path}: {self.why_failed}")
        if self._pending:
            # Until the write below has succeeded.
            self.why_failed = "an earlier write failed"
            self._check_file()
            write_all(self._fd, b"".join(self._pending))
            self._size += self._pending_bytes
            self._pending.clear()
            self._pending_bytes = 0
            self._is_synced = False
            self.why_failed = None

    def commit(self) -> bytes:
        """Write all added batches in one go, sync once; return the new mark."""
        self.write()
        if not self._is_synced:
            # Until the sync below has succeeded.
            self.why_failed = "an earlier write failed"
            sync_data(self._fd)
            frames, acks, events = self._added
            self._mark = (frames, acks, events, self._sha.digest())
            self._is_synced = True
            self.why_failed = None
        return MARKED.pack(*self._mark, clock_us())

    def close(self) -> None:
        """Close the file, which releases its lock."""
        os.close(self._fd)

    def _add(self, kind: int, count: int, body: bytes) -> None:
        frame = make_frame(
            kind, count, clock_us(), self._sha.digest()[:CHAIN_BYTES], body
        )
        self._sha.update(frame)
        self._pending.append(frame)
        self._pending_bytes += len(frame)
        self._added[0] += 1
        self._added[1] += count
        self._added[2] += kind == EVENT

    def _check_file(self) -> None:
        """Refuse if the file was deleted, cut short or written by someone else."""
        status = os.fstat(self._fd)
        if status.st_nlink == 0:
            raise Refusal("log", f"{self.path}: the log was deleted")
        if status.st_size != self._size:
            raise Refusal("log", f"{self.path}: someone else changed the log")


class Agent:
    """Answers the messages of one channel; holds open logs of one run, by their token.

    The processes of a load share a channel, see dbcheck.witness.relay.
    """

    def __init__(self, send: Callable[[int, bytes, int], None]) -> None:
        """Answer through *send*: a kind of reply, its payload, the token asked with."""
        self._send = send
        self._token = 0  # of the message that is answered
        self._logs: dict[int, Log] = {}
        self._added: dict[int, Log] = {}  # whose new batches are not durable yet
        self._locked_folder: int | None = None
        self._verbs: dict[int, Callable[[Any], None]] = {
            FACTS: self._facts,
            PROBE: self._probe,
            CREATE: self._create,
            JOIN: self._join,
            RUNS: self._runs,
            MANIFEST: self._manifest,
            READ: self._read,
            REMOVE: self._remove,
            LOCK: self._lock,
            JUDGED: self._judged,
            LEAVE: self._leave,
        }

    def handle(self, messages: list[tuple[int, int, int, bytes]]) -> None:
        """Answer all *messages* that have arrived; batches of a log share a sync."""
        self._added.clear()
        try:
            for verb, token, count, payload in messages:
                self._token = token
                if verb in (APPEND, NOTE):
                    log = self._added[token] = self._find_log(token)
                    log.add(verb, count, payload)
                elif verb in self._verbs:
                    call(self._verbs[verb], payload)
                else:
                    raise Refusal("protocol", f"no such verb: {verb}")
            # A filesystem commits together what is written before the first sync.
            for log in self._added.values():
                log.write()
            for log in self._added.values():
                self._send(MARK, log.commit(), log.token)
        except Refusal as refusal:
            self._error(refusal.code, str(refusal))
        except BrokenPipeError:
            raise
        except OSError as error:
            failed = [log.path for log in self._logs.values() if log.why_failed]
            self._error(errno_name(error), describe_error(error, "".join(failed[:1])))

    def close(self) -> None:
        """Close the logs that are open, and unlock the folder, if it is locked."""
        for log in self._logs.values():
            log.close()
        self._logs.clear()
        if self._locked_folder is not None:
            os.close(self._locked_folder)
            self._locked_folder = None

    def _find_log(self, token: int) -> Log:
        """Return the open log; after a batch for no open log none is confirmed."""
        if token not in self._logs:
            if not self._logs:
                raise Refusal("log", "no log is open on this channel")
            for log in self._logs.values():
                log.why_failed = log.why_failed or "a batch for another run came in"
            raise Refusal("log", f"{log.path}: {log.why_failed}")
        return self._logs[token]

    def _error(self, code: str, message: str) -> None:
        self._reply(ERROR, to_json({"code": code, "message": message}))

    def _reply(self, kind: int, payload: bytes) -> None:
        self._send(kind, payload, self._token)

    def _facts(self, request: Any) -> None:
        folder = resolve_own_folder(request)
        present = find_present(folder)
        if present == folder:
            require_own(folder)
            with Scratch(folder):
                pass
        else:  # a witness that is refused must not leave a folder behind
            require_makeable(folder, present)
        space, mount = os.statvfs(present), find_mount(present)
        result = {
            **read_host_names(),
            "folder": folder,
            "filesystem": mount["type"],
            "file_server": find_file_server(mount),
            "free_bytes": space.f_bavail * space.f_frsize,
            "clock_us": clock_us(),
            "booted_us": read_boot_time_us(),
        }
        self._reply(RESULT, to_json(result))

    def _probe(self, request: Any) -> None:
        if not 1 <= request["count"] <= PROBE_COUNT_MAX:
            raise Refusal("protocol", f"cannot probe {request['count']!r} times")
        folder = resolve_own_folder(request)
        require_disk(find_present(folder), volatile=request["volatile"])
        make_folder(folder)
        require_own(folder)
        durations_s = []
        with Scratch(folder) as fd:
            for _ in range(request["count"]):
                start = time.perf_counter()
                write_all(fd, bytes(PROBE_BYTES))
                sync_data(fd)
                durations_s.append(time.perf_counter() - start)
        self._reply(RESULT, to_json(durations_s))

    def _create(self, request: Any) -> None:
        if self._logs:
            raise Refusal("log", "a log is open on this channel already")
        folder = resolve_own_folder(request)
        path = run_folder(folder, request["run"])
        require_disk(find_present(folder), volatile=request["volatile"])
        make_folder(folder)
        require_own(folder)
        try:
            os.mkdir(path, 0o700)
        except FileExistsError:
            raise Refusal("exists", f"run {request['run']} already exists") from None
        try:
            write_durably(
                os.path.join(path, MANIFEST_NAME), base64.b64decode(request["manifest"])
            )
            log = Log(path, request["run"], 0)
            sync_folder(path)
            sync_folder(folder)
        except BaseException:
            shutil.rmtree(path, ignore_errors=True)  # made above, so it holds no ack
            raise
        self._open(log)

    def _open(self, log: Log) -> None:
        self._logs[log.token] = log
        self._send(MARK, log.commit(), log.token)

    def _join(self, request: Any) -> None:
        folder, number = resolve_own_folder(request), request["log"]
        if make_token(request["run"], number) in self._logs:
            raise Refusal("log", f"log {number} is open on this channel already")
        path = run_folder(folder, request["run"])
        logs = count_announced_logs(path)
        require_own(folder)
        require_own(path)
        if not 1 <= number < logs:
            raise Refusal(
                "no-log", f"run {request['run']} has {logs} logs, no log {number}"
            )
        try:
            log = Log(path, request["run"], number)
        except FileExistsError:
            refuse_if_open(path, log_name(number))
            raise Refusal(
                "exists", f"log {number} of run {request['run']} already exists"
            ) from None
        sync_folder(path)
        self._open(log)

    def _leave(self, _: Any) -> None:
        """Close the log that the message names by its token, if it is open."""
        log = self._logs.pop(self._token, None)
        if log is not None:
            try:
                if self._added.pop(self._token, None) is not None:
                    self._send(MARK, log.commit(), log.token)
            finally:
                log.close()
        self._reply(RESULT, to_json(None))

    def _runs(self, request: Any) -> None:
        runs = []
        folder = resolve_folder(request)
        for run_id in list_folder(folder):
            path = os.path.join(folder, run_id)
            try:
                if request.get("unjudged") and os.path.lexists(f"{path}/{JUDGED_NAME}"):
                    continue
                made_ns = os.lstat(os.path.join(path, MANIFEST_NAME)).st_mtime_ns
                for number in range(count_announced_logs(path)):
                    os.lstat(os.path.join(path, log_name(number)))
            except (FileNotFoundError, NotADirectoryError, Refusal):
                continue  # not a run, or a run that is being removed
            if RUN_ID.fullmatch(run_id):
                runs.append((made_ns, run_id))
        self._reply(RESULT, to_json([run_id for _, run_id in sorted(runs)]))

    def _judged(self, request: Any) -> None:
        """Note durably that the rows of a run were read."""
        path = run_folder(resolve_own_folder(request), request["run"])
        count_announced_logs(path)  # refuses a run that is not there
        require_own(path)
        with contextlib.suppress(FileExistsError):
            write_durably(os.path.join(path, JUDGED_NAME), b"")
        sync_folder(path)
        self._reply(RESULT, to_json(None))

    def _lock(self, request: Any) -> None:
        """Lock the folder until this channel ends; answer whether it is locked.

        flock(2) locks a directory like a file, and leaves no file behind.
        """
        folder = resolve_own_folder(request)
        make_folder(folder)
        require_own(folder)
        if self._locked_folder is None:
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                self._locked_folder = descriptor
            except BlockingIOError:
                os.close(descriptor)
            except BaseException:
                os.close(descriptor)
                raise
        self._reply(RESULT, to_json(self._locked_folder is not None))

    def _manifest(self, request: Any) -> None:
        self._stream(request, MANIFEST_NAME)

    def _read(self, request: Any) -> None:
        self._stream(request, log_name(request["log"]))

    def _stream(self, request: Any, name: str) -> None:
        path = run_folder(resolve_folder(request), request["run"])
        try:
            fd = open_file(path, name)
        except (FileNotFoundError, NotADirectoryError):
            raise Refusal("no-run", f"{path}/{name} is not there") from None
        try:
            # A log that grows meanwhile is read up to this size.
            left_bytes = os.fstat(fd).st_size
            while left_bytes:
                chunk = os.read(fd, min(left_bytes, CHUNK_BYTES))
                if not chunk:
                    break
                left_bytes -= len(chunk)
                self._reply(DATA, chunk)
        finally:
            os.close(fd)
        self._reply(END, b"")

    def _remove(self, request: Any) -> None:
        folder = resolve_own_folder(request)
        path = run_folder(folder, request["run"])
        try:
            names = os.listdir(path)
        except (FileNotFoundError, NotADirectoryError):
            raise Refusal("no-run", f"{path} is not there") from None
        require_own(folder)
        require_own(path)
        logs = [name for name in names if LOG_NAMES.fullmatch(name)]
        strangers = set(names) - {*logs, MANIFEST_NAME, JUDGED_NAME}
        if strangers:
            raise Refusal(
                "strangers",
                f"{path} holds files that dbcheck did not write: {min(strangers)}",
            )
        for name in logs:
            refuse_if_open(path, name)
        for name in names:
            os.unlink(os.path.join(path, name))
        os.rmdir(path)
        sync_folder(folder)
        self._reply(RESULT, to_json(None))


class Scratch:
    """A file whose name is removed at once, so that no file can be left behind."""

    def __init__(self, folder: str) -> None:
        """Use *folder*, which must exist."""
        self._path = os.path.join(folder, f".scratch-{os.getpid()}")

    def __enter__(self) -> int:
        """Create the file; return its descriptor."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
        self._fd = os.open(self._path, flags, 0o600)
        os.unlink(self._path)
        return self._fd

    def __exit__(self, *_: object) -> None:
        """Close the file."""
        os.close(self._fd)


def refuse_if_open(folder: str, name: str) -> None:
    """Refuse if an agent has the log *name* in *folder* open for appending."""
    fd = open_file(folder, name)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise Refusal("in-use", f"{folder}/{name} is being written") from None
    finally:
        os.close(fd)


def count_announced_logs(folder: str) -> int:
    """Return the number of logs that the manifest of the run in *folder* announces."""
    try:
        with os.fdopen(open_file(folder, MANIFEST_NAME), "rb") as file:
            logs = json.load(file)["logs"]
    except (FileNotFoundError, NotADirectoryError):
        raise Refusal("no-run", f"{folder}/{MANIFEST_NAME} is not there") from None
    except (ValueError, KeyError, TypeError, RecursionError):
        return 1
    return logs if isinstance(logs, int) else 1


def main() -> None:
    """Serve standard input and output."""
    prepare_process()
    replies = ReplyStream(1)
    serve(Agent(replies.send), replies, 0)


if __name__ == "__main__":
    main()
