-- Commits the prepared transaction %(name)s, in the branch %(branch)s.
xa commit %(name)s, %(branch)s;
