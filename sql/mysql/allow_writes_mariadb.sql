-- It takes writes from now on.
set global read_only = 0;
