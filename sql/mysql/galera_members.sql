-- The names of the nodes in this node's view, a row each (MariaDB 10.4).  A node that
-- lacks the majority refuses it, and shows none where dirty reads are allowed.
select node_name from mysql.wsrep_cluster_members where @@wsrep_dirty_reads = 0;
