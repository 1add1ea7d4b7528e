"""The database servers that a lab starts and kills."""
