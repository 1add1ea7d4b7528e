-- What is asked before anything else.
-- version:     the server's own sentence; begins with "PostgreSQL" if it is that
-- version_num: e.g. 150018
-- standby:     true while it is in recovery
-- read_only:   "on" if this session's transactions cannot write
select version(),
       current_setting('server_version_num')::int as version_num,
       pg_is_in_recovery() as standby,
       current_setting('transaction_read_only') as read_only;
