-- A GRANT statement in each row: what the account and its active roles may do.
show grants;
