-- It follows that server from the next start of replication on (MySQL 8.0.23).
change replication source to
    source_host = %(host)s, source_port = %(port)s, source_auto_position = 1;
