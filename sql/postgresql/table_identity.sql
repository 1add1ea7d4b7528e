-- What names the table %(name)s of schema dbcheck itself; no row if there is none.
-- identity: its OID, which a recreated table does not have, and its file node, which
--           TRUNCATE, VACUUM FULL, CLUSTER and an ALTER that rewrites it replace
--           (PostgreSQL 17 manual, 65.1 Database File Layout)
select c.oid::text || ' ' || pg_relation_filenode(c.oid)::text as identity
  from pg_class c
  join pg_namespace n on n.oid = c.relnamespace
 where n.nspname = 'dbcheck' and c.relname = %(name)s;
