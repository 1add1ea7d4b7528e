-- Marks the table as dbcheck's, in its first format.
comment on table dbcheck.canary is 'dbcheck 1';
