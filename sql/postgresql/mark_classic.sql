-- Marks the table as dbcheck's, in its first format.
comment on table dbcheck.fs is 'dbcheck 1';
