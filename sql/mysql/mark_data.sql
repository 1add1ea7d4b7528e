-- Leaves %(word)s in a file of the data directory: MariaDB keeps the definition of each
-- table there, with the comments of its columns (marker.frm).
create or replace table marker (
    one tinyint not null primary key comment %(word)s
) engine = InnoDB comment = 'dbcheck 1';
