-- Also switches super_read_only off.
set global read_only = 0;
