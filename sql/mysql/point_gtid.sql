-- log_bin: 1 with a binary log.  gtid: of MariaDB, the last transaction of each domain
-- that the binary log has.
select @@global.log_bin, @@global.gtid_binlog_pos;
