"""MySQL: a rollback segment is restored from an older copy; the server ends for good.

See mysql-undo.md.  Exit code: 0 seen, 1 not seen, 2 cannot run.
"""

import re
import subprocess
import time

from innodb import CHECKPOINT, batch, copies, lsn, run

WHY = r"fil0fil.cc:\d+|outside the tablespace"
ALL_ROWS = "b 32; CHECK TABLE OK"
UNDO = ("undo_001", "undo_002")
READER = b"start transaction with consistent snapshot; select count(*) from d.t;\n"


def history(page):
    """Return the length and the first and last page of a rollback segment's history.

    storage/innobase/include/trx0rseg.h: the base of that list is at 46.
    """
    count, first, last = (int.from_bytes(page[n : n + 4], "big") for n in (46, 50, 56))
    return f"{count} transactions, first page {first}, last page {last}"


def headers(old, new, slots, written):
    """Return the torn page's place, and its copies: the first has no history."""
    for name in UNDO:
        for n in range(4, 132):
            found = copies(slots, new[name][n])
            if (
                new[name][n] in [page for _, _, page in written]
                and lsn(found[0][2]) < lsn(old[name][n])
                and history(found[0][2]).startswith("0 ")
                and int.from_bytes(old[name][n][46:50], "big")
            ):
                yield name, n, found


def purged(server):
    """Wait for the purge; return whether the server still runs."""
    server.sql("set global innodb_purge_rseg_truncate_frequency = 1", "ERROR")
    status = "show engine innodb status"
    while not re.search(r"History list length 0\D", server.sql(status, "ERROR")):
        if server.process.poll() is not None:
            return False
        time.sleep(0.02)
    return server.process.poll() is None


def load_once(server):
    """Write the header pages of the rollback segments three times; kill the server."""
    one = "update d.t set v = repeat('b', 1000) where id = 1 +"
    many = "".join(f"{one} {n};" for n in range(32))
    server.sql(f"update d.u set v = repeat('b', 1000); {many}")
    purged(server)
    server.write_out()
    pipe = subprocess.PIPE
    with subprocess.Popen([*server.client, "-n"], stdin=pipe, stdout=pipe) as reader:
        # As long as this transaction is open, nothing is purged.
        reader.stdin.write(READER)
        reader.stdin.flush()
        reader.stdout.readline()
        server.sql(many)
        server.write_out()
        server.sql("update d.u set v = repeat('c', 1000) where id = 1")
        server.write_out()
        server.sql(many)
        before, log = server.slots(), server.heads()
        checkpoint = server.log_lsn(CHECKPOINT)
        old = {name: server.pages(name) for name in UNDO}
        server.write_out(checkpoint=False)
        server.kill()
    return old, batch(before, server.slots()), log, checkpoint


def check(server, asked):
    """Tear the header page of a rollback segment while it is written in place."""
    server.fill("t", 32)
    server.fill("u", 600)
    for load in range(1, asked.loads + 1):
        print(f"load {load}", flush=True)
        server.sql("set global innodb_rollback_segments = 8")
        old, written, log, checkpoint = load_once(server)
        new = {name: server.pages(name) for name in UNDO}
        found = next(headers(old, new, server.slots(), written), None)
        if found:
            break
        server.start()
    else:
        raise OSError(f"in {asked.loads} loads no segment had an older copy first")
    name, number, all_of_it = found
    page = new[name][number]
    print("all changed pages were written in one batch, then SIGKILL")
    print(
        f"page {number} of {name}: LSN {lsn(page)}, {history(page)}; last checkpoint ",
        end="",
    )
    print(f"{checkpoint}; whole copies in the order of the server:")
    for file, slot, copy in all_of_it:
        print(f"  {file} slot {slot}: LSN {lsn(copy)}, {history(copy)}")
    server.data.rename(server.kept)
    empty = bytes(server.size)
    older = [(f, n * server.size, empty) for f, n, p in all_of_it if p != page]
    seen = True
    for tear in asked.tear:
        torn = (name, (number + 1) * server.size - tear, old[name][number][-tear:])
        controls = {
            "nothing torn": [],
            f"last {tear} bytes old, older copies wiped": [torn, *older],
        }
        for words, patches in controls.items():
            up = server.attempt(*log, *patches) and purged(server)
            if not up or server.rows() != ALL_ROWS:
                raise OSError(
                    f"the control does not recover: {words}: {server.why(WHY)}"
                )
            print(f"control, {words}: {server.rows()}")
        for start in range(3):
            up = server.start() if start else server.attempt(*log, torn)
            up = up and purged(server)
            after = server.pages(name)[number]
            print(
                f"last {tear} bytes old: page of LSN {lsn(after)}, {history(after)}; ",
                end="",
            )
            print(server.rows() if up else server.why(WHY))
            seen = seen and not up and server.why(WHY) != "(no such line)"
        for level in range(1, 6 if tear == asked.tear[0] else 1):
            up = server.attempt(*log, torn, more=f"innodb-force-recovery={level}")
            print(
                f"innodb_force_recovery={level}: {server.rows() if up else 'it ends'}"
            )
    return seen


if __name__ == "__main__":
    run(check)
