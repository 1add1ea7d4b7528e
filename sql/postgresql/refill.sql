-- Which subscriptions write into dbcheck's tables, and into which.  Disabled ones too:
-- nothing shows whether one was enabled for a time.
-- Every account may read the view, but pg_subscription.oid only from PostgreSQL 15 on
-- (system_views.sql).
select distinct s.subname, c.relname
  from pg_subscription_rel r
  join pg_stat_subscription s on s.subid = r.srsubid
  join pg_class c on c.oid = r.srrelid
  join pg_namespace n on n.oid = c.relnamespace
 where n.nspname = 'dbcheck' and c.relname = any(%(names)s)
 order by s.subname, c.relname;
