-- Rows that stand in the table before a load, many at once, each with a value like the
-- last one here; columns as in create_fs.sql.
insert into {table} values (0);
