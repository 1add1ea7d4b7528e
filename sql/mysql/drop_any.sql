-- Removes the table and its rows.
drop table {table};
