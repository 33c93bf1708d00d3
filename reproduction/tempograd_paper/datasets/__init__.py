"""The real data sets of the paper, and PhysioNet 2012, which anybody can get."""
