-- the standby takes over from its writer; false: do not wait until it has
select pg_promote(false);
