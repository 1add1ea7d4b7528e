-- Rolls back the prepared transaction %(name)s, in the branch %(branch)s.
xa rollback %(name)s, %(branch)s;
