-- host, port: by which this server registers with its source (MySQL 8.0.22; MariaDB)
select coalesce(@@report_host, '') as host, @@report_port as port;
