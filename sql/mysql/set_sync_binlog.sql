-- Changes when the binary log is flushed, until the server restarts.
set global sync_binlog = %(value)s;
