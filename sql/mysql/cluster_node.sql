-- Whether the server is a node of a Galera cluster, and its name there; or of which
-- replication group it is a member.  A server has no row for what it was built without.
show global variables
where variable_name in (
    'wsrep_on', 'wsrep_provider', 'wsrep_node_name', 'group_replication_group_name'
);
