-- Opens MariaDB's redo log again, with the page cache (1) or past it (0), until the
-- server restarts.
set global innodb_log_file_buffering = %(value)s;
