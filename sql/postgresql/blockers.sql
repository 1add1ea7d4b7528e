-- Who holds, or waits for, a lock on a table of schema dbcheck that no reader passes
-- (PostgreSQL 17 manual, 13.3.1).
-- pid, role, application, state: as in pg_stat_activity; null for a prepared
--                                transaction, or if the account may not see them
-- granted: false while it waits itself, before all who came later
select c.relname as name, l.granted, a.pid, a.usename as role,
       a.application_name as application, a.state
  from pg_catalog.pg_locks l
  join pg_catalog.pg_class c on c.oid = l.relation
  join pg_catalog.pg_namespace n on n.oid = c.relnamespace
  left join pg_catalog.pg_stat_activity a on a.pid = l.pid
 where n.nspname = 'dbcheck' and l.mode = 'AccessExclusiveLock'
   and l.database = (select oid from pg_catalog.pg_database
                      where datname = pg_catalog.current_database())
 order by l.granted desc, a.pid
 limit 5;
