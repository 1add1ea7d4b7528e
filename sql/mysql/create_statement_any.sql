-- The statement that created the table, with the place of its file if it names one.
show create table {table};
