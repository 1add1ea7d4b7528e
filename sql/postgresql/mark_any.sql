-- Marks the table as dbcheck's, in its first format.
comment on table dbcheck.{table} is 'dbcheck 1';
