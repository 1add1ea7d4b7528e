-- Uptime: whole seconds since the server started
-- Innodb_redo_log_enabled: ON or OFF, where the server has it (MySQL 8.0.21)
-- the others: the newest byte of the redo log, and where recovery would begin to replay
--             (MySQL 8.0.30; MariaDB 10.5)
show global status
where variable_name in (
    'Uptime', 'Innodb_redo_log_enabled',
    'Innodb_redo_log_current_lsn', 'Innodb_redo_log_checkpoint_lsn',
    'Innodb_lsn_current', 'Innodb_lsn_last_checkpoint'
);
