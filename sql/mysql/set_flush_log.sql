-- Changes when InnoDB's log is written and flushed, until the server restarts.
set global innodb_flush_log_at_trx_commit = %(value)s;
