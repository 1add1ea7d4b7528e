-- The server can copy another one's data, also after a restart.
install plugin clone soname 'mysql_clone.so';
