"""MySQL: a torn page is restored from an older copy; committed rows are lost.

See mysql-older-copy.md.  Exit code: 0 seen, 1 not seen, 2 cannot run.
"""

from innodb import CHECKPOINT, END, batch, copies, lsn, run

ALL_ROWS = "b 125 c 125; CHECK TABLE OK"


def stale(old, new, slots, start):
    """Return the pages whose first copy is of "a", two writes before, and their copies.

    start: the LSN where this load began; before it, rows had the same letters.
    """
    found = {n: copies(slots, new[n]) for n in range(len(old)) if new[n] != old[n]}
    return [
        (n, all_of_it)
        for n, all_of_it in found.items()
        if new[n] in [page for _, _, page in all_of_it]
        and start < lsn(all_of_it[0][2]) < lsn(old[n])
        and b"a" * 900 in all_of_it[0][2]
    ]


def check(server, asked):
    """Write pages three times or more, and tear one during the last time."""
    server.fill("t", 250)
    server.fill("other", 1)
    for load in range(1, asked.loads + 1):
        print(f"load {load}", flush=True)
        start = server.log_lsn(END)
        for letter in "ab":
            server.sql(f"update d.t set v = repeat('{letter}', 1000)")
            server.write_out()
        for number in range(load % 3):  # other writes: each load takes other slots
            server.sql(f"update d.other set v = {load + number}")
            server.write_out()
        old, before = server.pages("d/t.ibd"), server.slots()
        server.sql("update d.t set v = repeat('c', 1000) where id % 2 = 0")
        checkpoint, log = server.log_lsn(CHECKPOINT), server.heads()
        server.write_out(checkpoint=False)
        server.kill()
        new, slots = server.pages("d/t.ibd"), server.slots()
        found = stale(old, new, slots, start)
        if batch(before, slots) and found:
            break
        server.start()
    else:
        raise OSError(f"in {asked.loads} loads no page had an older copy first")
    number, all_of_it = found[0]
    print("all changed pages were written in one batch, then SIGKILL")
    print(f"{len(found)} pages of t.ibd have a first copy of two writes before")
    print(f"page {number}: LSN {lsn(new[number])}, before {lsn(old[number])}; ", end="")
    print(f"last checkpoint {checkpoint}; whole copies in the order of the server:")
    for file, slot, page in all_of_it:
        print(f"  {file} slot {slot}: LSN {lsn(page)}")
    server.data.rename(server.kept)
    empty = bytes(server.size)
    older = [(f, n * server.size, empty) for f, n, p in all_of_it if p != new[number]]
    if not server.attempt(*log) or server.rows() != ALL_ROWS:
        raise OSError(f"the control does not recover: {server.rows()}")
    print(f"control, nothing torn: {server.rows()}")
    seen = True
    for tear in asked.tear:
        torn = ("d/t.ibd", (number + 1) * server.size - tear, old[number][-tear:])
        if not server.attempt(*log, torn, *older) or server.rows() != ALL_ROWS:
            raise OSError(f"the control does not recover: {server.rows()}")
        print(f"its last {tear} bytes are old, control, older copies wiped: {ALL_ROWS}")
        server.attempt(*log, torn)
        rows = server.rows()
        print(f"its last {tear} bytes are old: {rows}")
        print(server.why(f"page number={number}\\]"))
        seen = seen and rows.startswith("a ") and rows.endswith("OK")
    return seen


if __name__ == "__main__":
    run(check)
