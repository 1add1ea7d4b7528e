-- A row if the server is a replica (MySQL 8.0.22 and newer).
show replica status;
