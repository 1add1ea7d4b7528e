-- schema:    where the extension amcheck is, quoted, null if it is not in the database
-- available: whether the server has its files
-- superuser: whether the account may create it
-- account:   who asks, quoted
-- may_check_index, may_check_table: whether the account may use bt_index_check() and
--            verify_heapam(), which PostgreSQL has from 14 on
-- checksums: "on" if each page bears one
-- failures:  pages of this database whose checksum was found wrong since the statistics
--            were reset, as recovery from a crash does, null if there are no checksums
with functions as (
    select p.oid, p.proname, n.nspname
      from pg_extension e
      join pg_namespace n on n.oid = e.extnamespace
      left join pg_depend d
             on d.refclassid = 'pg_extension'::regclass and d.refobjid = e.oid
            and d.classid = 'pg_proc'::regclass and d.deptype = 'e'
      left join pg_proc p on p.oid = d.objid
     where e.extname = 'amcheck'
)
select (select quote_ident(min(nspname)) from functions) as schema,
       exists (select from pg_available_extensions where name = 'amcheck') as available,
       (select rolsuper from pg_roles where rolname = current_user) as superuser,
       quote_ident(current_user) as account,
       exists (select from functions
                where proname = 'bt_index_check'
                  and has_function_privilege(oid, 'execute')
                  and has_schema_privilege(nspname, 'usage')) as may_check_index,
       exists (select from functions
                where proname = 'verify_heapam'
                  and has_function_privilege(oid, 'execute')
                  and has_schema_privilege(nspname, 'usage')) as may_check_table,
       current_setting('data_checksums') as checksums,
       (select checksum_failures from pg_stat_database
         where datname = current_database()) as failures;
