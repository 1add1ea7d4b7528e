-- Commits the prepared transaction %(name)s.
commit prepared %(name)s;
