-- setting, former, changed: see create_relaxed; no row if nothing is changed on this
-- server.
select setting, former, changed from relaxed where server = @@global.server_id
 order by setting;
