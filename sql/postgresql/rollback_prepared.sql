-- Rolls back the prepared transaction %(name)s.
rollback prepared %(name)s;
