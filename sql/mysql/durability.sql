-- What decides whether a commit is durable when it is acknowledged, and where the log
-- is then.  variable_name, value: of those that the server has.
show global variables where variable_name in (
    'server_id', 'log_bin', 'sync_binlog',
    'innodb_flush_log_at_trx_commit', 'rocksdb_flush_log_at_trx_commit',
    'innodb_flush_method', 'innodb_log_file_buffering', 'innodb_log_file_write_through'
);
