-- wal_level: of the server.  may_name: whether the account may make a restore point.
-- account:   who asks, quoted
select current_setting('wal_level') as wal_level,
       has_function_privilege('pg_create_restore_point(text)', 'execute') as may_name,
       quote_ident(current_user) as account;
