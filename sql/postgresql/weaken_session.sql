-- For the sessions of a control: an ack comes before the commit is on the drive (off),
-- or before a standby has it (local).
select set_config('synchronous_commit', %(value)s, false);
