-- The table %(name)s of %(database)s; no row if there is none.
-- type: BASE TABLE or VIEW; engine: e.g. InnoDB; comment: marks it as dbcheck's
select table_type as type, coalesce(engine, '') as engine, table_comment as comment
  from information_schema.tables
 where table_schema = %(database)s and table_name = %(name)s;
