-- Ends what is left of an attempt to join.
stop group_replication;
