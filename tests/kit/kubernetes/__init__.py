"""A stand-in for the API of Kubernetes, and what it is asked for."""
