"""What a report says, as plain text; how it is drawn is the business of a format."""
