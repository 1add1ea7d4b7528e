-- Changes when MyRocks' log is written and flushed, until the server restarts.
set global rocksdb_flush_log_at_trx_commit = %(value)s;
