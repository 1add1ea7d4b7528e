-- former, changed: see create_relaxed; no row if nothing is changed on this server.
select former, changed from relaxed where server = @@global.server_id;
