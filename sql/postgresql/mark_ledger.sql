-- Marks the table as dbcheck's, in its first format.
comment on table dbcheck.ledger is 'dbcheck 1';
