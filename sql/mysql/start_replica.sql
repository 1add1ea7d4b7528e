-- It receives and applies what its source has (MySQL 8.0.22; MariaDB 10.5.1).
start replica;
