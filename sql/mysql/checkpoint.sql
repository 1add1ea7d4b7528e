-- Writes the redo log out; InnoDB has no statement for a checkpoint.
flush engine logs;
