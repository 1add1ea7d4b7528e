-- Where the node is in its cluster (Galera 26.4):
-- wsrep_cluster_state_uuid: of the cluster's data
-- wsrep_cluster_status:     Primary while it is among the majority
-- wsrep_cluster_size:       how many nodes its view has
-- wsrep_local_state:        4 once it has all that the others have, 2 while it copies
--                           its data to another
-- wsrep_ready:              ON while it takes queries
-- wsrep_last_committed:     the newest transaction that it has committed
-- wsrep_local_recv_queue:   how many it has received and not applied
show global status
where variable_name in (
    'wsrep_cluster_state_uuid', 'wsrep_cluster_status', 'wsrep_cluster_size',
    'wsrep_local_state', 'wsrep_ready', 'wsrep_last_committed',
    'wsrep_local_recv_queue'
);
