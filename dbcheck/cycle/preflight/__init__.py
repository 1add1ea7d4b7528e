"""What comes before the load: a server and a rig that a verdict can be given of."""
