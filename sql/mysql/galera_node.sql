-- Whether the server is a node of a Galera cluster, and its name there.  A server that
-- is built without Galera has no row.
show global variables
where variable_name in ('wsrep_on', 'wsrep_provider', 'wsrep_node_name');
