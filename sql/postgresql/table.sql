-- The relation named %(name)s in schema dbcheck; no row if there is none.
-- kind:        pg_class.relkind, "r" for an ordinary table
-- persistence: pg_class.relpersistence, "p" for a permanent (logged) table
-- comment:     marks a table as dbcheck's
-- may_select, may_insert, may_update, may_delete: privileges of the account
-- is_owner:    whether the account may drop it
select c.relkind::text as kind,
       c.relpersistence::text as persistence,
       coalesce(obj_description(c.oid, 'pg_class'), '') as comment,
       has_table_privilege(c.oid, 'select') as may_select,
       has_table_privilege(c.oid, 'insert') as may_insert,
       has_table_privilege(c.oid, 'update') as may_update,
       has_table_privilege(c.oid, 'delete') as may_delete,
       pg_has_role(c.relowner, 'usage') as is_owner
  from pg_class c
  join pg_namespace n on n.oid = c.relnamespace
 where n.nspname = 'dbcheck' and c.relname = %(name)s;
