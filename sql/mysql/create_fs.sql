-- An auto-increment id and nothing else.
create table if not exists fs (
    id bigint not null auto_increment primary key
) comment = 'dbcheck 1';
