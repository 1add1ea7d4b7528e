"""What comes after the cut: the rows are read, before anything writes."""
