-- unlogged: how many tables of this database recovery empties
select count(*)::text as unlogged
  from pg_class
 where relkind = 'r' and relpersistence = 'u';
