-- A table that crash recovery empties and an orderly shutdown keeps (PostgreSQL 17,
-- CREATE TABLE, UNLOGGED).
-- epoch: of the cycle that planted the row
create unlogged table if not exists dbcheck.canary (epoch bigint not null);
