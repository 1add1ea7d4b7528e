-- Facts of a CockroachDB node, none of which needs a privilege before version 25.4.
-- version:  its own sentence; begins with "CockroachDB"
-- database: that this connection is in
-- clock_us: the node's clock now, microseconds since the epoch
select version() as version,
       current_database() as database,
       (extract(epoch from clock_timestamp()) * 1000000)::int8 as clock_us;
