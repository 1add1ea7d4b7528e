-- Returns once the server has joined its replication group, or was refused.
start group_replication;
