-- unlogged: how many tables of this database recovery empties, but for dbcheck's own
select count(*)::text as unlogged
  from pg_class
 where relkind = 'r' and relpersistence = 'u'
   and obj_description(oid, 'pg_class') is distinct from 'dbcheck 1';
