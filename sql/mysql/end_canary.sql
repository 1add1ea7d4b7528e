-- Ends a session of our own, as a shutdown ends every session.
kill connection %(thread)s;
