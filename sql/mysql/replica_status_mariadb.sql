-- A row for each source that the server replicates from (MariaDB 10.5 and newer).
show all replicas status;
