"""A bundle: all the evidence of a run or a campaign in one file, to be checked."""
