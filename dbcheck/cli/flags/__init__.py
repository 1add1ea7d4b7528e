"""The flags of the verbs."""
