-- Begins another file of the binary log, if there is one.
flush binary logs;
