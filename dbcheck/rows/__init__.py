"""The rows of a load: what operations write, what was acknowledged, what is lost."""
