"""Sentences of reports, as plain text; a format draws them."""
