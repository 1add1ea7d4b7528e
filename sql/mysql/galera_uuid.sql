-- What the cluster calls this node, whatever its name (MariaDB 10.4).
show global status where variable_name = 'wsrep_gcomm_uuid';
