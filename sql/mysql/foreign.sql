-- what: each thing on the table %(name)s of %(database)s that changes, refuses or adds
--       rows, or makes its index another one than dbcheck's; no row for a table as
--       dbcheck creates it.  Triggers are shown to whoever has the privilege TRIGGER
--       (MySQL 8.4 manual, 28.3.50).  Where a column may be null and has no default,
--       MariaDB shows 'NULL' for it.
-- %(columns)s: its columns' names, separated by commas; %(key)s: its further index;
-- %(engine)s: its storage engine
select concat('the trigger ', trigger_name) as what
  from information_schema.triggers
 where event_object_schema = %(database)s and event_object_table = %(name)s
union all
select concat('the generated column ', column_name)
  from information_schema.columns
 where table_schema = %(database)s and table_name = %(name)s
   and generation_expression <> ''
union all
select concat('a default of the column ', column_name)
  from information_schema.columns
 where table_schema = %(database)s and table_name = %(name)s
   and column_default <> 'NULL'
union all
select 'no auto_increment of the column id'
  from information_schema.columns
 where table_schema = %(database)s and table_name = %(name)s
   and column_name = 'id' and extra not like '%%auto_increment%%'
union all
select concat('the column ', column_name)
  from information_schema.columns
 where table_schema = %(database)s and table_name = %(name)s
   and not find_in_set(column_name, %(columns)s)
union all
select concat('the type ', data_type, ' of the column ', column_name)
  from information_schema.columns
 where table_schema = %(database)s and table_name = %(name)s
   and lower(data_type) not in ('bigint', 'int', 'smallint', 'longblob')
union all
select concat('the type ', table_type, ' ', coalesce(engine, ''))
  from information_schema.tables
 where table_schema = %(database)s and table_name = %(name)s
   and (table_type <> 'BASE TABLE' or coalesce(engine, '') <> %(engine)s)
union all
select concat('the partition ', partition_name)
  from information_schema.partitions
 where table_schema = %(database)s and table_name = %(name)s
   and partition_name is not null
union all
select concat('the constraint ', constraint_name)
  from information_schema.table_constraints
 where table_schema = %(database)s and table_name = %(name)s
   and constraint_type not in ('PRIMARY KEY', 'UNIQUE')
union all
select concat('the index ', index_name)
  from information_schema.statistics
 where table_schema = %(database)s and table_name = %(name)s
   and index_name not in ('PRIMARY', %(key)s)
union all
select concat('the primary key''s column ', column_name)
  from information_schema.statistics
 where table_schema = %(database)s and table_name = %(name)s
   and index_name = 'PRIMARY' and column_name <> 'id'
union all
select 'no primary key'
  from information_schema.tables
 where table_schema = %(database)s and table_name = %(name)s
   and not exists (
       select 1 from information_schema.statistics
        where table_schema = %(database)s and table_name = %(name)s
          and index_name = 'PRIMARY');
