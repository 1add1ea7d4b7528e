-- name, uuid: of each node in this node's view; since: the number of that view, which
-- grows with each change of the members (MariaDB 10.4).  A node that lacks the majority
-- refuses it, and shows none where dirty reads are allowed.
select node_name as name, node_uuid as uuid,
       (select variable_value from information_schema.global_status
         where variable_name = 'wsrep_cluster_conf_id') as since
  from mysql.wsrep_cluster_members
 where @@wsrep_dirty_reads = 0;
