-- replicated: whether what this session commits is sent to the other nodes of Galera
select @@session.wsrep_on as replicated;
