-- Removes what no transaction can see any more, and freezes what it can.
vacuum (freeze) dbcheck.{table};
