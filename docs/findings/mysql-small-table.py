"""MySQL: page 0 of a new table torn, its others not yet written: it does not start.

See mysql-small-table.md.  Exit code: 0 seen, 1 not seen, 2 cannot run.
"""

from innodb import CHECKPOINT, batch, lsn, run

WHY = "Cannot determine the space ID"
ALL_ROWS = "a 50; CHECK TABLE OK"


def check(server, asked):
    """Tear page 0 of a new table while its pages are written the first time."""
    server.write_out()
    server.fill("t", 50)
    old = server.pages("d/t.ibd")
    before, log = server.slots(), server.heads()
    checkpoint = server.log_lsn(CHECKPOINT)
    server.write_out(checkpoint=False)
    server.kill()
    new, written = server.pages("d/t.ibd"), batch(before, server.slots())
    pages = [page for page in new if any(page)]
    newest = [slot for slot in written if slot[2] in pages]
    if len(newest) != len(pages):
        raise OSError("the pages of the table were not written in one batch")
    rest = b"".join(old[1:]).ljust((len(new) - 1) * server.size, b"\0")
    print("all changed pages were written in one batch, then SIGKILL")
    print(
        f"t.ibd: {len(pages)} pages were written, {sum(map(any, old))} before that; ",
        end="",
    )
    print(
        f"page 0: LSN {lsn(new[0])}, before {lsn(old[0])}; last checkpoint {checkpoint}"
    )
    print(
        f"whole copies of all: {newest[0][0]} slots", *(slot for _, slot, _ in newest)
    )
    server.data.rename(server.kept)
    others = ("d/t.ibd", server.size, rest)
    controls = {"nothing torn": [], "page 0 whole, the others not written": [others]}
    torn = {t: ("d/t.ibd", server.size - t, old[0][-t:]) for t in asked.tear}
    controls.update({f"last {t} of page 0 old": [torn[t]] for t in torn})
    for name, patches in controls.items():
        if not server.attempt(*log, *patches) or server.rows() != ALL_ROWS:
            raise OSError(f"the control does not recover: {name}: {server.rows()}")
        print(f"control, {name}: {server.rows()}")
    seen = True
    for tear, patch in torn.items():
        for start in range(2):
            up = server.start() if start else server.attempt(*log, patch, others)
            print(f"last {tear} bytes of page 0 old, the others not written: ", end="")
            print(server.rows() if up else server.why(WHY))
            seen = seen and not up and WHY in server.why(WHY)
        server.attempt(*log, patch, others, ("d/t.ibd", 0, new[0]))
        print(f"page 0 put back by hand from its copy: {server.rows()}")
        for level in (1, 6):
            server.attempt(*log, patch, others, more=f"innodb-force-recovery={level}")
            print(f"with innodb_force_recovery={level}: {server.rows()}")
    return seen


if __name__ == "__main__":
    run(check)
