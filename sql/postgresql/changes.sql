-- changes: how many rows of pg_trigger, pg_rewrite and pg_inherits were written in this
--          database, as far as sessions have reported it (PostgreSQL 17 manual, 27.2.2)
select sum(n_tup_ins + n_tup_upd + n_tup_del)::text as changes
  from pg_catalog.pg_stat_sys_tables
 where schemaname = 'pg_catalog'
   and relname in ('pg_trigger', 'pg_rewrite', 'pg_inherits');
