"""MariaDB: the torn page 0 of a table is not restored from its copy.

See mariadb-first-page.md.  Exit code: 0 seen, 1 not seen, 2 cannot run.
"""

from innodb import CHECKPOINT, END, batch, lsn, run

ALL_ROWS = "a 800 b 20; CHECK TABLE OK"


def check(server, asked):
    """Tear page 0 of a table, which has not grown, while it is written in place."""
    server.fill("t", 800)
    server.write_out()
    old, before, end = server.pages("d/t.ibd"), server.slots(), server.log_lsn(END)
    rows = ",".join(f"({n}, repeat('b', 1000))" for n in range(1001, 1021))
    server.sql(f"insert into d.t values {rows}")
    server.sql("flush tables d.t for export; unlock tables")
    checkpoint = server.log_lsn(CHECKPOINT)
    server.kill()
    new, written = server.pages("d/t.ibd"), batch(before, server.slots())
    place = {page: (file, slot) for file, slot, page in written}
    if len(new) != len(old) or new[0] not in place or checkpoint > end:
        raise OSError("page 0 was not written, or the table has grown")
    other = max(n for n in range(len(new)) if new[n] in place and any(old[n]))
    print(
        f"page 0 of t.ibd: LSN {lsn(new[0])}, before {lsn(old[0])}; last checkpoint ",
        end="",
    )
    print("{}; whole copy: {} page {}".format(checkpoint, *place[new[0]]))
    server.data.rename(server.kept)
    controls = {"nothing torn": []}
    for n in asked.tear:
        patch = ("d/t.ibd", (other + 1) * server.size - n, old[other][-n:])
        controls[f"last {n} bytes of page {other} old"] = [patch]
    for name, patches in controls.items():
        if not server.attempt(*patches) or server.rows() != ALL_ROWS:
            raise OSError(f"the control does not recover: {name}: {server.rows()}")
        print(f"control, {name}: {server.rows()}")
    seen = True
    for tear in asked.tear:
        torn = ("d/t.ibd", server.size - tear, old[0][-tear:])
        for start in range(2):
            up = server.start() if start else server.attempt(torn)
            rows = server.rows() if up else "it does not start"
            print(f"last {tear} bytes of page 0 old: {rows}")
            print(f"  {server.why('first page of file|page 0 of|page number=0')}")
            seen = seen and "ERROR 1877" in rows
            server.kill()
        up = server.attempt(torn, more="innodb-force-recovery=1")
        print(f"with innodb_force_recovery=1: {server.rows() if up else 'no start'}")
        server.attempt(torn, ("d/t.ibd", 0, new[0]))
        print(f"page 0 put back by hand from its copy: {server.rows()}")
    return seen


if __name__ == "__main__":
    run(check)
