-- logged: whether what this session commits is written to the binary log
select @@session.sql_log_bin as logged;
