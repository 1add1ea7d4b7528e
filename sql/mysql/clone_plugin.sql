-- plugin_status: ACTIVE if the server can copy another one's data; no row without the
-- plugin
select plugin_status from information_schema.plugins where plugin_name = 'clone';
