-- from the next reload on the standby follows that server, also after a restart
alter system set primary_conninfo = %(conninfo)s;
