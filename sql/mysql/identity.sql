-- uuid: the name of this server's data; no row if it has none
select uuid from identity where one = 1;
