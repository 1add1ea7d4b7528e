-- Its functions check indexes and tables; the files are part of the server's package.
create extension if not exists amcheck schema dbcheck;
