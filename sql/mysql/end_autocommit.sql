-- Has the statements of this session open transactions, which only a commit ends.
set session autocommit = 0;
