"""MySQL ends itself at a torn copy of a page, although a whole newer one is there.

See mysql-torn-copy.md.  Exit code: 0 seen, 1 not seen, 2 cannot run.
"""

from innodb import CHECKPOINT, copies, lsn, run

FILES = ("d/t.ibd", "d/u.ibd", "ibdata1", "mysql.ibd", "undo_001", "undo_002")
WHY = r"buf0dblwr.cc:\d+:ib::fatal"


def two_batches(before, after):
    """Return the slots of a full batch in the second segment, and of one in the first.

    The pages of the full one were written before those of the other.
    """
    written = sorted(set(after) - set(before))
    first = [slot for slot in written if slot[:2] < (written[0][0], 128)]
    second = [slot for slot in written[len(first) :] if slot[1] < 256]
    if (
        len(second) != 128
        or not 0 < len(first) < 128
        or len(written) > 128 + len(first)
    ):
        return [], []
    return second, first


def overwritten(before, after, old, new, full, other):
    """Return (number of a page, slot of its stale copy, new content, whole copy).

    before, after: the slots.  old, new: the table's pages.  The first whole copy that
    is left is the newest: an older one would be restored (mysql-older-copy.py).
    """
    newest = {page: (file, n) for file, n, page in full}
    last = {slot[:2]: slot[2] for slot in other}
    return [
        (number, slot, last[slot[:2]], newest[page])
        for number, page in enumerate(new)
        if page in newest and page != old[number]
        for slot in copies(before, page)
        if slot[:2] in last
        and slot[:2] < newest[page] == copies(after, page)[0][:2]
        and lsn(page) < lsn(last[slot[:2]])
    ]


def check(server, asked):
    """Have one batch written in place while the next is written to its slots."""
    size, rows = server.size, 250 * server.size // 16384  # as many pages of each size
    all_rows = f"c {rows}; CHECK TABLE OK"
    server.fill("t", rows)
    server.fill("u", 4 * rows - 1)
    for load in range(1, asked.loads + 1):
        print(f"load {load}", flush=True)
        for number in range(load % 3):  # other writes: each load takes other slots
            server.sql(f"update d.u set v = 'other {number}' where id = 1")
            server.write_out()
        server.sql("update d.t set v = repeat('b', 1000)")
        server.write_out()
        server.sql("update d.t set v = repeat('c', 1000)")
        server.sql(f"update d.u set v = repeat('{load % 10}', 1000)")
        before, log = server.slots(), server.heads()
        checkpoint = server.log_lsn(CHECKPOINT)
        old = {name: server.pages(name) for name in FILES}
        server.write_out(checkpoint=False)
        server.kill()
        new = {name: server.pages(name) for name in FILES}
        after = server.slots()
        full, other = two_batches(before, after)
        pages = [each["d/t.ibd"] for each in (old, new)]
        found = overwritten(before, after, *pages, full, other)
        if found:
            break
        server.start()
    else:
        raise OSError(f"in {asked.loads} loads no second batch met such a slot")
    number, (file, slot, stale), content, place = found[0]
    page = new["d/t.ibd"][number]
    print("all changed pages were written in two batches, then SIGKILL")
    print(f"page {number} of t.ibd: LSN {lsn(page)}, before ", end="")
    print(f"{lsn(old['d/t.ibd'][number])}; last checkpoint {checkpoint}")
    print(f"first batch: its whole copy is in {place[0]} slot {place[1]}")
    print(
        f"second batch: in {file} slot {slot} its copy of LSN {lsn(stale)} is ", end=""
    )
    print(
        f"overwritten with a copy of page {int.from_bytes(content[4:8], 'big')}"
        f" of space {int.from_bytes(content[34:38], 'big')}"
    )
    second = {copy for _, _, copy in other}  # which are not yet written in place
    undone = [
        (name, n * size, old[name][n] if n < len(old[name]) else bytes(size))
        for name in FILES
        for n, one in enumerate(new[name])
        if one in second
    ]
    server.data.rename(server.kept)
    seen = True
    for tear in asked.tear:
        torn = ("d/t.ibd", (number + 1) * size - tear, old["d/t.ibd"][number][-tear:])
        half = (file, slot * size, stale[:tear])
        controls = {
            "nothing torn": [],
            f"last {tear} bytes of the page old": [torn],
            f"first {tear} bytes of the slot old": [half],
        }
        for name, patches in controls.items():
            if not server.attempt(*log, *undone, *patches) or server.rows() != all_rows:
                raise OSError(f"the control does not recover: {name}: {server.rows()}")
            print(f"control, {name}: {server.rows()}")
        for start in range(2):
            up = server.start() if start else server.attempt(*log, *undone, torn, half)
            print(f"both: {server.rows() if up else server.why(WHY)}")
            seen = seen and not up and "fatal" in server.why(WHY)
        empty = (file, slot * size, bytes(size))
        server.attempt(*log, *undone, torn, empty)
        print(f"slot {slot} set to zero by hand: {server.rows()}")
        server.attempt(*log, *undone, torn, half, more="innodb-force-recovery=6")
        print(f"with innodb_force_recovery=6: {server.rows()}")
    return seen


if __name__ == "__main__":
    run(check)
