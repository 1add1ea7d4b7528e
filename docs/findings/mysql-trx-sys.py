"""MySQL: a torn page 5 of the system tablespace is not restored; it does not start.

See mysql-trx-sys.md.  Exit code: 0 seen, 1 not seen, 2 cannot run.
"""

from innodb import CHECKPOINT, batch, lsn, run

WHY = r"page number=5\]. You may have to recover from a backup"


def check(server, asked):
    """Tear page 5 (FSP_TRX_SYS_PAGE_NO) while it is written in place."""
    server.fill("t", 50)
    server.sql("set global innodb_rollback_segments = 1")
    one = "update d.t set v = repeat('b', 1000) where id = 1 +"
    for load in range(1, asked.loads + 1):
        print(f"load {load}", flush=True)
        server.write_out()
        old, before = server.pages("ibdata1")[5], server.slots()
        # Each 256th transaction id is stored there.
        server.sql("".join(f"{one} {n % 50};" for n in range(260)))
        checkpoint, log = server.log_lsn(CHECKPOINT), server.heads()
        server.write_out(checkpoint=False)
        server.kill()
        new, written = server.pages("ibdata1")[5], batch(before, server.slots())
        newest = [slot for slot in written if slot[2] == new]
        if new != old and newest:
            break
        server.start()
    else:
        raise OSError(f"in {asked.loads} loads no single batch had page 5")
    print("all changed pages were written in one batch, then SIGKILL")
    print(
        f"page 5 of ibdata1: LSN {lsn(new)}, before {lsn(old)}; last checkpoint ",
        end="",
    )
    print(f"{checkpoint}; whole copy: {newest[0][0]} slot {newest[0][1]}")
    server.data.rename(server.kept)
    if not server.attempt(*log) or server.rows() != "b 50; CHECK TABLE OK":
        raise OSError(f"the control does not recover: {server.why('ERROR')}")
    print(f"control, nothing torn: {server.rows()}")
    seen = True
    for tear in asked.tear:
        torn = ("ibdata1", 6 * server.size - tear, old[-tear:])
        for start in range(2):
            up = server.start() if start else server.attempt(*log, torn)
            print(f"its last {tear} bytes are old: ", end="")
            print(server.rows() if up else server.why(WHY))
            seen = seen and not up and "ERROR" in server.why(WHY)
        if not server.attempt(*log, torn, more="innodb-force-recovery=1"):
            print("with innodb_force_recovery=1: it does not start")
            continue
        print(f"with innodb_force_recovery=1: {server.rows()}", end="")
        server.sql("shutdown")
        server.process.wait()
        print(f"; then without: {server.start() and server.rows()}")
    return seen


if __name__ == "__main__":
    run(check)
