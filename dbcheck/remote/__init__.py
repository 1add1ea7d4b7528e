"""Hosts near and far: the way there, programs sent there, what tells them apart."""
