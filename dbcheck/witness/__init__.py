"""The durable log of acks on a host that does not share the target's fate."""
