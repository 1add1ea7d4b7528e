-- Tables of the connection's database that are not of the storage engine %(engine)s.
-- table_name: without its database; engine: e.g. Aria.  Views have no engine, and
--       neither has a table that the server cannot open far enough to name one.
select table_name, engine
  from information_schema.tables
 where table_schema = database() and table_type = 'BASE TABLE'
   and engine <> %(engine)s;
