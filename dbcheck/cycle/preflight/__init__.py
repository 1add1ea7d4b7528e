"""Prepares a run: checks that a verdict can be given of this server and this rig."""
