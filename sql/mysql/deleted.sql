-- How many rows of the table %(name)s in %(database)s were deleted since the server
-- started; no row where performance_schema is off, or counts nothing of that table.
-- Needs SELECT on performance_schema.table_io_waits_summary_by_table (MySQL 8.4 manual,
-- 29.12.20.8 Table I/O and Lock Wait Summary Tables).
-- deleted: also by transactions that were rolled back
select count_delete as deleted
  from performance_schema.table_io_waits_summary_by_table
 where object_type = 'TABLE'
   and object_schema = %(database)s and object_name = %(name)s;
