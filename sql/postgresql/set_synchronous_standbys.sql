-- from the next reload on commits wait for these standbys, also after a restart
alter system set synchronous_standby_names = %(names)s;
