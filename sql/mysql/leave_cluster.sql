-- For the sessions of a control of Galera: what they commit reaches no other node.
set session wsrep_on = off;
