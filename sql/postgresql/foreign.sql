-- what: each thing on the table %(name)s of schema dbcheck that changes, hides, refuses
--       or adds rows, runs code of others, or makes its index another one than
--       dbcheck's (PostgreSQL 17 manual, chapter 53); also what is disabled, as one
--       statement enables it; no row for a table as dbcheck creates it
-- %(columns)s: an array of its columns' names; %(key)s: its further index
with ours as (
    select c.oid, c.relam, c.relrowsecurity
      from pg_class c
      join pg_namespace n on n.oid = c.relnamespace
     where n.nspname = 'dbcheck' and c.relname = %(name)s
)
select 'the trigger ' || tgname as what
  from pg_trigger join ours on tgrelid = ours.oid
 where not tgisinternal
union all
select 'the rule ' || rulename
  from pg_rewrite join ours on ev_class = ours.oid
union all
select 'row security' from ours where relrowsecurity
union all
select case when attgenerated = '' then 'a default of the column '
            else 'the generated column ' end || attname
  from pg_attrdef
  join ours on adrelid = ours.oid
  join pg_attribute on attrelid = adrelid and attnum = adnum
union all
select 'no identity of the column id'
  from pg_attribute join ours on attrelid = ours.oid
 where attname = 'id' and attidentity = ''
union all
select 'inheritance with ' ||
       (case inhrelid when ours.oid then inhparent else inhrelid end)::regclass
  from pg_inherits join ours on ours.oid in (inhrelid, inhparent)
union all
select 'the constraint ' || conname
  from pg_constraint join ours on ours.oid in (conrelid, confrelid)
 where contype not in ('p', 'n') and (contype, conname) <> ('u', %(key)s)
union all
select 'the column ' || attname
  from pg_attribute join ours on attrelid = ours.oid
 where attnum > 0 and not attisdropped and attname::text <> all(%(columns)s)
union all
select 'the type ' || format_type(atttypid, atttypmod) || ' of the column ' || attname
  from pg_attribute join ours on attrelid = ours.oid
 where attnum > 0 and not attisdropped
   and format_type(atttypid, atttypmod)
       not in ('bigint', 'integer', 'smallint', 'bytea')
union all
select 'the index ' || indexrelid::regclass
  from pg_index join ours on indrelid = ours.oid
 where not indisprimary and indexrelid::regclass::text <> 'dbcheck.' || %(key)s
union all
select 'no primary key of its id alone' from ours
 where not exists (
       select from pg_index
         join pg_attribute on attrelid = indrelid and attnum = indkey[0]
        where indrelid = ours.oid and indisprimary and indisvalid and indnatts = 1
          and attname = 'id')
union all
select 'the access method ' || amname
  from pg_am join ours on pg_am.oid = ours.relam
 where amname <> 'heap';
