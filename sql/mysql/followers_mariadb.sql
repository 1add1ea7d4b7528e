-- The replicas that are connected, a row each (MariaDB 10.5).
show replica hosts;
