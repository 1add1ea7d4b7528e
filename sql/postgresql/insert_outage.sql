-- One row of a probe; columns as in create_keyed.sql.
-- $1 epoch, $2 session, $3 seq, $4 part, $5 payload, $6 checksum
insert into dbcheck.outage (epoch, session, seq, part, payload, checksum)
values ($1, $2, $3, $4, $5, $6)
returning id;
