"""What commits and writes do to the drives, and how deep a cut of an idle host goes."""
