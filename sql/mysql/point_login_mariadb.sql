-- It follows that server from the next start of replication on, after its own newest
-- transaction or the newest that it has applied.
change master to
    master_host = %(host)s, master_port = %(port)s, master_use_gtid = current_pos,
    master_user = %(user)s, master_password = %(password)s;
