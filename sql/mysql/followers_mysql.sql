-- The replicas that are connected, a row each (MySQL 8.0.22).
show replicas;
