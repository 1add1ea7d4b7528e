-- Removes the table and its row.
drop table relaxed;
