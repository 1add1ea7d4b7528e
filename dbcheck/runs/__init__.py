"""The folders that runs leave: their records and rows, and who made them."""
