-- What names this server's data, where the server has nothing that does (MariaDB).
-- one:  always 1, so that there is one row
-- uuid: drawn by dbcheck when it made the table
create table if not exists identity (
    one  tinyint not null primary key,
    uuid char(36) not null
) engine = InnoDB comment = 'dbcheck 1';
