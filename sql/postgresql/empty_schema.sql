-- One row if the schema dbcheck exists, is empty and may be dropped by the account.
select 1
  from pg_namespace n
 where n.nspname = 'dbcheck' and pg_has_role(n.nspowner, 'usage')
   and not exists (select 1 from pg_class c where c.relnamespace = n.oid)
   and not exists (select 1 from pg_proc p where p.pronamespace = n.oid)
   and not exists (select 1 from pg_type t where t.typnamespace = n.oid);
