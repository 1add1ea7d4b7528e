-- The names of the nodes that are in this node's view, a row each (MariaDB 10.4).
select node_name from mysql.wsrep_cluster_members;
