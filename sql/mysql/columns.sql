-- The columns of the table %(name)s of %(database)s, in their order.
-- column: name; type: without display width
select column_name as `column`, lower(data_type) as type
  from information_schema.columns
 where table_schema = %(database)s and table_name = %(name)s
 order by ordinal_position;
