"""The process that holds a lab, and how it is spoken to."""
