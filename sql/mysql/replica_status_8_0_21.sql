-- A row if the server is a replica (MySQL before 8.0.22).
show slave status;
