-- the standby of that slot finds here from now on what it misses; no row if the slot
-- is there
select pg_create_physical_replication_slot(%(name)s, true)
 where not exists (select from pg_replication_slots where slot_name = %(name)s);
