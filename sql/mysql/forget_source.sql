-- A restart will not have it follow again (MySQL 8.0.22; MariaDB 10.5.1).
reset replica all;
