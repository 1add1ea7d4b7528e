-- Removes all rows, with the file that they are in.
truncate table {table};
