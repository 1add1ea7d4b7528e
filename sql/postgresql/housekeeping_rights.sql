-- version:        as a number, such as 150004
-- may_checkpoint: whether the account may run CHECKPOINT
-- may_rotate:     whether it may begin another file of WAL
-- account:        who asks, quoted
select current_setting('server_version_num')::int as version,
       (select rolsuper from pg_roles where rolname = current_user)
       or exists (select from pg_roles
                   where rolname = 'pg_checkpoint'
                     and pg_has_role(current_user, oid, 'usage')) as may_checkpoint,
       has_function_privilege('pg_switch_wal()', 'execute') as may_rotate,
       quote_ident(current_user) as account;
