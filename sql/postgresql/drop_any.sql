-- Removes the table and its rows.
drop table dbcheck.{table};
